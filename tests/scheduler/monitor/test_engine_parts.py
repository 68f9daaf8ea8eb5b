"""What an engine gave is known for a while after its last rider has left."""

from typing import Any

import pytest
from scheduler.builders import NOW, POLICY, device, node, outcome, pod, run, tenant, world
from scheduler.placement.test_seats import engine, rider, seated

from rowen.scheduler.history import EnginePart, History
from rowen.scheduler.model.profile import Profile
from rowen.scheduler.model.rider import Served
from rowen.scheduler.monitor.engine_parts import engine_parts
from rowen.scheduler.monitor.observation import observe
from rowen.scheduler.snapshot import NodeView

CPU0 = "n", "cpu0"
KNOWN = {("class", "cpu"): Profile(200.0, 600.0, NOW)}
SERVED = Served("ns", "models/tiny")
ASSUMED = 0.8 + 0.1 * 0.2


def left(history: History, at: float, there: NodeView | None) -> History:
    """The history `at` seconds later, with nobody in the engine."""
    return observe(history, world(*([there] if there else [])), NOW + at, POLICY).history


def ridden(*, tail_seconds: int = 0) -> History:
    """After a job that made 100 tokens a second, of 200 alone, in the engine for 70 s, and then next to none."""
    view, history = seated(rider("j"), "n", at=NOW), History(KNOWN)
    tail = [(70 + past, 7000 + past) for past in range(10, tail_seconds + 10, 10)]
    for at, tokens in ((10, 1000), (70, 7000), *tail):
        there = node("n", engine("n", tenants=(tenant(view, tokens, float(at)),)), reported=NOW + at)
        history = observe(history, world(there, view, pod(view, "n")), NOW + at, POLICY).history
    return history


def there(at: float, **fields: Any) -> NodeView:
    return node("n", engine("n", **fields), reported=NOW + at)


def test_the_next_rider_is_placed_by_what_the_last_one_made() -> None:
    history = left(ridden(), 80.0, there(80.0))
    assert history.tracks == {}
    assert history.parts == {CPU0: EnginePart(pytest.approx(0.5), NOW + 70.0, SERVED)}
    found = outcome(run(there(80.0), rider("next"), history=history, now=NOW + 80.0), "next")
    assert found.fraction == pytest.approx(0.5, abs=0.01)
    # Another engine, of which nothing is known, is taken before it.
    other = node("o", engine("o"), reported=NOW + 80.0)
    found = outcome(run(there(80.0), other, rider("next"), history=history, now=NOW + 80.0), "next")
    assert found.placement is not None
    assert found.placement.node == "o"


def test_a_riders_last_minute_says_little_of_the_engine() -> None:
    """Few of its rows are left then, or it writes its output."""
    history = ridden(tail_seconds=60)
    assert history.parts[CPU0].time == NOW + 130.0
    assert 0.5 * 0.95 < history.parts[CPU0].part < 0.5
    found = outcome(
        run(there(140.0), rider("next", sla=0.45), history=left(history, 140.0, there(140.0)), now=NOW + 140.0), "next"
    )
    assert found.placement is not None


def test_an_engine_that_gives_less_for_long_is_known_to() -> None:
    history = ridden(tail_seconds=1800)
    assert history.parts[CPU0].part < 0.5 * 0.35


@pytest.mark.parametrize(
    ("age", "part"), [(0.0, 0.3), (900.0, (0.3 + ASSUMED) / 2), (1800.0, 0.3 / 4 + ASSUMED * 3 / 4)]
)
def test_it_comes_to_what_is_assumed(age: float, part: float) -> None:
    history = History(parts={CPU0: EnginePart(0.3, NOW - age, SERVED)})
    assert engine_parts(history, world(there(0.0)), NOW) == {CPU0: pytest.approx(part)}


def test_nothing_is_known_of_it_in_the_end() -> None:
    history = History(parts={CPU0: EnginePart(0.3, NOW, SERVED)})
    for at in (1800.0, 3599.0):
        history = left(history, at, there(at))
        assert history.parts.keys() == {CPU0}
    assert left(history, 3600.0, there(3600.0)).parts == {}
    assert engine_parts(history, world(there(3600.0)), NOW + 3600.0) == {}


@pytest.mark.parametrize("now", [
    None, node("n"), node("n", device("n")), node("n", engine("n", "cpu1")),
    node("n", engine("n", model="models/other")), node("n", engine("n", args=["--dtype=half"])),
])  # fmt: skip
def test_an_engine_that_is_gone_or_serves_something_else_is_forgotten(now: NodeView | None) -> None:
    history = History(parts={CPU0: EnginePart(0.3, NOW, SERVED)})
    assert left(history, 10.0, now).parts == {}
    assert engine_parts(history, world(*([now] if now else [])), NOW) == {}


def test_an_engine_that_takes_nobody_in_for_a_moment_is_not() -> None:
    history = History(parts={CPU0: EnginePart(0.3, NOW, SERVED)})
    assert left(history, 10.0, there(10.0, seats=0)).parts == history.parts


def test_an_engine_that_gave_nothing_is_tried_again_later() -> None:
    history = History(parts={CPU0: EnginePart(0.0, NOW, SERVED)})
    refused = outcome(run(there(0.0), rider("j"), history=history), "j")
    assert refused.message.endswith("n/cpu0: engine 0.00 x sharing 1.00: nothing to give")
    again = outcome(run(there(900.0), rider("j"), history=history, now=NOW + 900.0), "j")
    assert again.placement is not None
    assert again.placement.rides

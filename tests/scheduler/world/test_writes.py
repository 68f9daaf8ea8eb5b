"""When a status is written, and what keeps its old wording and figures."""

from dataclasses import replace
from typing import Any

import pytest
from scheduler.builders import NOW, POLICY, device, job, node, outcome, placed, run

from rowen.crds.job.offline_job_status import OfflineJobStatus
from rowen.scheduler.history import History, Track
from rowen.scheduler.model.profile import Profile
from rowen.scheduler.monitor.lease import Loss, Reason
from rowen.scheduler.snapshot import JobView
from rowen.scheduler.world.status import Wanted, owned, wanted, worth_writing

FOR_EVER = float("inf")


def at(fraction: float, *, sla: float = 0.5, solo: float = 100.0, short: float = 0.0) -> tuple[JobView, History]:
    """A job that runs at so much of its speed alone, with so many seconds of its SLA's throughput missing."""
    view = placed(job("j", sla=sla), "n")
    track = Track(
        "id-j", "j-1", "class", ("cpu",), NOW - 600, NOW, 0, 0.0, fraction=fraction, tokens_per_second=solo * fraction,
        shortfall=short,
    )  # fmt: skip
    return view, History(profiles={("class", "cpu"): Profile(solo, 60, NOW)}, tracks={"uid-j": track})


def told(view: JobView, history: History | None = None, *, idle: float = 0.8, now: float = NOW) -> Wanted:
    history = history or History()
    found = outcome(run(node("n", device("n", idle=idle), reported=now), view, history=history, now=now), "j")
    return wanted(found, (), history, now, POLICY)


def stored(view: JobView, written: Wanted) -> JobView:
    return replace(view, status=OfflineJobStatus.from_wire(written.to_wire()))


def moved(before: float, after: float, **fields: Any) -> tuple[Wanted, Wanted]:
    """What was written at one speed, and what is wanted at the next."""
    view, history = at(before, **fields)
    view = stored(view, told(view, history))
    return owned(view.status), told(view, at(after, **fields)[1])


@pytest.mark.parametrize(("after", "figure"), [(0.6, 60.0), (0.62, 60.0), (0.58, 60.0), (0.635, 63.5), (0.565, 56.5)])
def test_figures_move_by_more_than_a_twentieth_or_not_at_all(after: float, figure: float) -> None:
    old, new = moved(0.6, after)
    assert new.throughput is not None
    assert new.throughput.measured_tokens_per_second == figure
    assert (new == old) == (figure == 60.0)


def test_one_figure_that_moves_brings_the_others_and_the_wording() -> None:
    old, new = moved(0.6, 0.61)
    assert new == old
    view, history = at(0.6)
    view = stored(view, told(view, history))
    faster = told(view, at(0.61, solo=200.0)[1])
    assert faster.throughput is not None
    assert faster.throughput.measured_fraction == 0.61
    assert faster.conditions[2].message == "measured 0.61 ≥ SLA 0.50 over 60 s"


def test_figures_that_come_or_go_are_told() -> None:
    view, history = at(0.6)
    without = told(view)
    assert without.throughput is None
    with_ = told(stored(view, without), history)
    assert with_.throughput is not None
    assert told(stored(view, with_)).throughput is None


def test_a_status_that_turns_brings_its_own_words_however_small_the_step() -> None:
    """0.491 and 0.49 are within a twentieth, and both messages have the same letters."""
    view, history = at(0.491, short=119.0)
    view = stored(view, told(view, history))
    old, new = owned(view.status), told(view, at(0.49, short=121.0)[1])
    assert (old.conditions[2].status, new.conditions[2].status) == ("Unknown", "False")
    assert new.conditions[2].message == "measured 0.49 < SLA 0.50 over 60 s; 121 s of its throughput are missing"
    assert worth_writing(new, old, 0.0)


def test_a_reason_that_turns_brings_its_own_words() -> None:
    """The status stays Unknown."""
    view = placed(job("j", sla=0.5), "n")
    view = stored(view, told(view))
    known = History(profiles={("class", "cpu"): Profile(100.0, 60, NOW)})
    assert told(view, known).conditions[2].message == "less than 60 s measured so far"
    assert worth_writing(told(view, known), owned(view.status), 0.0)


def test_words_that_turn_are_told_though_no_figure_has_moved() -> None:
    view = placed(job("j", counts_tokens=False), "n")
    view = stored(view, told(view))
    known = History(profiles={("class", "cpu"): Profile(100.0, 60, NOW)})
    assert told(view, known).conditions[0].message.endswith("alone is known")


def test_a_condition_follows_the_explanation() -> None:
    view = job("j", sla=0.9)
    view = stored(view, told(view, idle=0.5))
    assert "idle 0.50" in told(view, idle=0.54).conditions[1].message
    assert "idle 0.56" in told(view, idle=0.56).conditions[1].message


def test_words_that_turn_are_told_though_status_and_reason_stay() -> None:
    view = job("j", sla=0.9)
    view = stored(view, told(view, idle=0.5))
    gone = outcome(run(view), "j")
    new = wanted(gone, (), History(), NOW, POLICY)
    assert new.conditions[1].message == "no node reports a harvested device"
    assert not worth_writing(new, owned(view.status), 9.9)
    assert worth_writing(new, owned(view.status), 10.0)


def test_what_has_not_changed_is_never_written() -> None:
    old, new = moved(0.6, 0.6)
    assert not worth_writing(new, old, FOR_EVER)


@pytest.mark.parametrize(("quiet", "write"), [(0.0, False), (9.9, False), (10.0, True)])
def test_figures_wait_for_ten_quiet_seconds(quiet: float, write: bool) -> None:
    old, new = moved(0.6, 0.7)
    assert worth_writing(new, old, quiet) == write


def test_a_lease_alone_does_not_become_due_by_waiting() -> None:
    view = placed(job("j"), "n")
    view = stored(view, told(view))
    for later in (4.9, 15.0, 3600.0):
        assert not worth_writing(told(view, now=NOW + later), owned(view.status), FOR_EVER)


@pytest.mark.parametrize(
    "change",
    [
        {"generation": 2},
        {"suspended": True},
        {"finished": True},
        {"placement": None},
    ],
)
def test_what_matters_is_written_at_once(change: dict[str, Any]) -> None:
    view = job("j")
    first = outcome(run(node("n"), view), "j")
    view = replace(stored(view, wanted(first, (), History(), NOW, POLICY)), placement=first.placement)
    new = told(replace(view, **change), now=NOW + 1)
    assert worth_writing(new, owned(view.status), 0.0)


def test_evictions_are_counted_from_what_was_written() -> None:
    view = replace(placed(job("j"), "n"), status=OfflineJobStatus(evictions=4))
    gone = outcome(run(node("n"), view), "j")
    lost = replace(gone, placement=None, loss=Loss(Reason.NODE_LOST, "gone"))
    assert wanted(lost, (), History(), NOW, POLICY).to_wire()["evictions"] == 5
    assert wanted(gone, (), History(), NOW, POLICY).to_wire()["evictions"] == 4
    assert "evictions" not in told(job("j")).to_wire()

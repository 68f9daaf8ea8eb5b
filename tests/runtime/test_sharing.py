"""A scheduler that shares its device, and that nothing of it harms the engine."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
from runtime.recorder import Recorder
from runtime.test_reports import Plain

from rowen.crds.ride.terms import LatencyBound, SpatialTerms
from rowen.runtime.vllm import scheduler as reports
from rowen.runtime.vllm.scheduler import reporting
from rowen.runtime.vllm.spatial import scheduler
from rowen.runtime.vllm.spatial.scheduler import Shares, sharing

BOUND = LatencyBound(percentile=99.0, seconds=80.0)
TERMS = SpatialTerms(ttft=BOUND, tpot=BOUND)
NOTICE = "offline work has no share beside requests any more: the engine serves"


def step(decodes: int, prompt: int = 0) -> Any:
    """Of so many requests that get a token, and one with so many tokens of a prompt."""
    names = [f"{number}" for number in range(decodes)]
    counts = {**dict.fromkeys(names, 1), **({"new": prompt} if prompt else {})}
    return SimpleNamespace(
        num_scheduled_tokens=counts,
        total_num_scheduled_tokens=sum(counts.values()),
        scheduled_new_reqs=[SimpleNamespace(req_id="new", num_computed_tokens=0)] if prompt else [],
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=names, num_computed_tokens=[9] * decodes, num_output_tokens=[1] * decodes
        ),
        scheduled_spec_decode_tokens={},
        finished_req_ids=set(),
    )


class Engine(Plain):
    """Has one request, and the step that the test says."""

    next = step(1)

    def schedule(self, throttle_prefills: bool = False) -> Any:
        return self.next

    def update_from_output(self, output: Any, result: str) -> str:
        return result


@pytest.fixture
def device(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    monkeypatch.setattr(scheduler, "online", lambda: recorder)
    monkeypatch.setattr(reports, "online", lambda: recorder)
    return recorder


def run(engine: Any, *steps: Any) -> None:
    for each in steps:
        engine.next = each
        assert engine.schedule(throttle_prefills=True) is each
        assert engine.update_from_output(each, "tokens") == "tokens"


def test_shares_are_said_and_measured(device: Recorder) -> None:
    engine = reporting(sharing(Engine, TERMS))(vllm_config=None)
    engine.add_request("a")
    run(engine, step(0, 8), *[step(1) for _ in range(10)], step(1, 8), step(1))
    # Four steps alone, then four beside a tenth, which is known then.
    assert device.shares == [0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 0, 2]
    assert len(device.steps) == 13


def test_who_has_ended_is_nobody_whose_tokens_are_due(device: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(scheduler, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    tpot = LatencyBound(percentile=99.0, seconds=1.0)
    engine = sharing(Engine, SpatialTerms(ttft=BOUND, tpot=tpot))()
    planner = engine._Shares__steps._planner
    ended = step(0)
    ended.finished_req_ids = {"0"}
    for each, seconds in ((step(0, 8), 0.5), (step(1), 3.0)):
        engine.next = each
        engine.schedule()
        clock[0] += seconds
        engine.update_from_output(each, "tokens")
    engine.next = step(1)
    engine.next.scheduled_cached_reqs.num_output_tokens = [2]
    engine.schedule()
    assert planner.token_pace.due_in < 0
    engine.next = ended
    engine.schedule()
    assert planner.token_pace.due_in == math.inf
    # It waited for three seconds for a token.
    assert not planner.token_pace.kept


def test_a_step_that_computes_nothing_changes_nothing(device: Recorder) -> None:
    engine = sharing(Engine, TERMS)()
    run(engine, step(0, 8), step(0), step(1))
    assert device.shares == [0, 0]


def test_without_a_device_it_is_the_scheduler_that_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "online", lambda: None)
    run(sharing(Engine, TERMS)(), step(0, 8), step(1))


def test_what_fails_ends_the_sharing_alone(device: Recorder, capfd: pytest.CaptureFixture[str]) -> None:
    engine = reporting(sharing(Engine, TERMS))()
    engine.add_request("a")
    other = step(2)
    del other.scheduled_new_reqs  # another version's
    run(engine, step(0, 8), *[step(1) for _ in range(5)], other, step(1), other)
    assert device.shares == [0, 0, 0, 0, 0, 1, 0]
    assert "fail" not in device.events
    assert len(device.steps) == 9
    said = capfd.readouterr()
    assert (said.out + said.err).count(NOTICE) == 1
    assert "AttributeError" in said.out + said.err


def test_not_even_a_device_that_fails_harms_the_engine(
    device: Recorder, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(_: int) -> None:
        raise OSError("gone")

    monkeypatch.setattr(device, "share", broken)
    run(sharing(Engine, TERMS)(), step(1), step(1))
    said = capfd.readouterr()
    assert (said.out + said.err).count(NOTICE) == 1


def test_a_measure_that_fails_ends_it_too(device: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = sharing(Engine, TERMS)()
    monkeypatch.setattr(device, "granted", lambda: 1 / 0)
    run(engine, step(1), step(1))
    assert device.shares == [0, 0]


def test_what_a_scheduler_keeps_for_itself_is_its_own(device: Recorder) -> None:
    private = {name for name in vars(Shares) if name.startswith("_") and not name.endswith("__")}
    assert private
    assert all(name.startswith("_Shares__") for name in private)
    engine = sharing(Engine, TERMS)()
    assert vars(engine).keys() - vars(Engine()).keys() == {"_Shares__steps"}


def test_a_class_that_is_made_otherwise_is_refused() -> None:
    with pytest.raises(TypeError, match=r"dict has no has_unfinished_requests, schedule, update_from_output"):
        sharing(dict, TERMS)

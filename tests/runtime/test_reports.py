"""What an engine's scheduler tells its device, and that nothing of it harms the engine."""

from typing import Any

import pytest
from runtime.recorder import Recorder

from rowen.runtime.vllm import scheduler
from rowen.runtime.vllm.scheduler import Reports, reporting


class Output:
    def __init__(self, tokens: int) -> None:
        self.total_num_scheduled_tokens = tokens


class Plain:
    """As vLLM's are, as far as that matters."""

    def __init__(self, **_: Any) -> None:
        self.waiting: list[str] = []

    def add_request(self, request: str) -> None:
        if request == "refused":
            raise ValueError(request)
        self.waiting.append(request)

    def finish_requests(self, ids: list[str], status: int, *, quick: bool = False) -> list[str]:
        self.waiting = [name for name in self.waiting if name not in ids]
        return ids

    def has_unfinished_requests(self) -> bool:
        return bool(self.waiting)

    def schedule(self, throttle_prefills: bool = False) -> Any:
        return Output(len(self.waiting))

    def set_pause_state(self, state: int) -> None:
        self.waiting = []

    def update_from_output(self, output: Output, result: str) -> str:
        self.waiting = []
        return result


@pytest.fixture
def device(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    monkeypatch.setattr(scheduler, "online", lambda: recorder)
    return recorder


def test_busy_from_the_first_request_to_the_end_of_the_last_step(device: Recorder) -> None:
    engine = reporting(Plain)(vllm_config=None)
    engine.add_request("a")
    engine.add_request("b")
    assert engine.finish_requests(["a"], 3, quick=True) == ["a"]
    assert device.events == ["pin", "busy"]
    assert engine.update_from_output(engine.schedule(throttle_prefills=True), "tokens") == "tokens"
    assert device.events == ["pin", "busy", "idle"]
    [(begin_ns, end_ns)] = device.steps
    assert begin_ns < end_ns


def test_an_engine_whose_requests_have_to_stand_still_has_nothing_to_do(device: Recorder) -> None:
    engine: Any = reporting(Plain)()
    engine.add_request("a")
    assert engine.has_unfinished_requests()
    assert device.events == ["pin", "busy"]
    # As rows do when the lease runs out: nobody has called anything.
    engine.waiting = []
    assert not engine.has_unfinished_requests()
    assert device.events == ["pin", "busy", "idle"]


def test_a_request_that_the_engine_refuses_leaves_nothing_behind(device: Recorder) -> None:
    engine = reporting(Plain)()
    with pytest.raises(ValueError, match="refused"):
        engine.add_request("refused")
    assert (device.events, device.in_flight) == (["pin", "busy", "idle"], 0)


def test_an_engine_whose_work_cannot_be_told_works_on_and_is_not_harvested(
    device: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    class Other(Plain):
        def schedule(self, throttle_prefills: bool = False) -> Any:
            return {"tokens": len(self.waiting)}  # another version's

    engine = reporting(Other)()
    for number in range(3):
        engine.add_request(f"{number}")
        assert engine.update_from_output(engine.schedule(), "tokens") == "tokens"
    assert device.events == ["pin", "busy", "fail"]
    said = capsys.readouterr()
    assert (said.out + said.err).count("the engine serves, and is not harvested") == 1


def test_what_a_scheduler_keeps_for_itself_is_its_own(device: Recorder) -> None:
    private = {name for name in vars(Reports) if name.startswith("_") and not name.endswith("__")}
    assert private
    assert all(name.startswith("_Reports__") for name in private)
    engine = reporting(Plain)()
    assert all(name.startswith("_Reports__") for name in vars(engine).keys() - vars(Plain()).keys())


def test_a_class_may_have_attributes_of_its_own() -> None:
    assert reporting(Plain, shortage_wait_seconds=1.0).shortage_wait_seconds == 1.0  # type: ignore[attr-defined]


def test_a_class_that_is_made_otherwise_is_refused() -> None:
    with pytest.raises(TypeError, match=r"dict has no add_request, finish_requests, .*update_from_output"):
        reporting(dict)

"""What the device is told about an engine's work."""

from runtime.recorder import Recorder

from rowen.runtime.vllm.engine_work import EngineWork


def test_the_engine_counts_once_however_many_requests_it_has(recorder: Recorder) -> None:
    work = EngineWork(recorder)
    for _ in range(3):
        work.raise_busy()
        work.settle(unfinished=True)
    work.settle(unfinished=False)
    work.settle(unfinished=False)
    assert recorder.events == ["busy", "idle"]


def test_a_step_that_still_runs_keeps_the_engine_busy(recorder: Recorder) -> None:
    work = EngineWork(recorder)
    work.raise_busy()
    work.begin(1, 10)
    work.settle(unfinished=False)
    assert recorder.events == ["busy"]
    work.end(1, 20)
    work.settle(unfinished=False)
    assert recorder.events == ["busy", "idle"]


def test_overlapping_steps_leave_no_gap(recorder: Recorder) -> None:
    work = EngineWork(recorder)
    work.begin(1, 10)
    work.begin(2, 15)
    work.end(1, 20)
    work.end(2, 30)
    work.begin(3, 34)
    work.end(3, 40)
    assert recorder.steps == [(10, 20), (20, 30), (34, 40)]


def test_what_a_step_is_made_of_is_told_with_its_own_time(recorder: Recorder) -> None:
    work = EngineWork(recorder)
    work.begin(1, 10, 0, 7)
    work.begin(2, 15, 2, 0)
    work.end(1, 20)
    work.end(2, 32)
    work.end(2, 40)
    assert recorder.compositions == [(10, 0, 7), (12, 2, 0)]


def test_a_request_that_failed_to_start_leaves_the_engine_idle(recorder: Recorder) -> None:
    work = EngineWork(recorder)
    work.raise_busy()
    work.settle(unfinished=False)
    assert recorder.in_flight == 0


def test_without_a_device_nothing_happens() -> None:
    work = EngineWork(None)
    work.raise_busy()
    work.begin(1, 10)
    work.end(1, 20)
    work.settle(unfinished=False)

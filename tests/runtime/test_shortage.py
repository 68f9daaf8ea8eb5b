"""What the log says of work that waits for memory."""

from structlog.testing import capture_logs

from rowen.runtime.memory.shortage import Shortage


def said(shortage: Shortage, *times: float) -> list[int]:
    """The waiting times in the log's lines."""
    with capture_logs() as logs:
        for now in times:
            shortage.lasts(now, handle_bytes=4096, handles_needed=7, handles_granted=3)
    amounts = {(entry["handles_needed"], entry["handles_granted"], entry["handle_bytes"]) for entry in logs}
    assert amounts <= {(7, 3, 4096)}
    assert {entry["log_level"] for entry in logs} <= {"warning"}
    return [entry["waited_seconds"] for entry in logs]


def test_it_is_said_after_a_second_and_then_each_minute() -> None:
    assert said(Shortage("it waits"), 100.0, 100.9, 101.0, 101.1, 160.9, 161.0, 200.0, 221.5) == [1, 61, 122]


def test_short_waits_are_not_said() -> None:
    shortage = Shortage("it waits")
    for second in range(200):
        assert said(shortage, second, second + 0.9) == []
        shortage.ends()


def test_memory_that_comes_and_goes_is_said_once_a_minute() -> None:
    shortage = Shortage("it waits")
    lines = []
    for begin in range(0, 125, 5):
        lines += said(shortage, begin, begin + 2)
        shortage.ends()
    assert lines == [2, 2, 2]

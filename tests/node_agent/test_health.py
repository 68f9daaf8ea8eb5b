"""What counts as stalled."""

from rowen.node_agent.health import stalled


def test_what_comes_round_is_not_stalled() -> None:
    assert stalled({}, {}, 100.0) == []
    assert stalled({"lease": 70.0, "report": 100.0}, {"cpu0": 90.0, "cpu1": 100.0}, 100.0) == []


def test_a_loop_has_half_a_minute() -> None:
    assert stalled({"lease": 69.9, "report": 70.0}, {"cpu0": 100.0}, 100.0) == ["loop lease"]


def test_a_native_thread_has_ten_seconds_and_its_device_is_named() -> None:
    assert stalled({"lease": 100.0}, {"device cpu0": 89.0, "device cpu1": 90.0}, 100.0) == [
        "device cpu0: its native thread has not come round for 11 s"
    ]

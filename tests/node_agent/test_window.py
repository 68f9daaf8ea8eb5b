"""Idle and harvested fractions speak of the engine that is attached, not of the time before it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from rowen.node_agent.devices.counts import Closing, DeviceCounts, Request
from rowen.node_agent.memory.trace import MemorySample
from rowen.node_agent.report.window import Window

COUNTS = DeviceCounts(
    now=0.0,
    idle_seconds=0.0,
    harvested_seconds=0.0,
    preemptions=0,
    backstops=0,
    decode_gap=0.0,
    cooldown=0.002,
    gate_open=True,
    online_processes=0,
    in_flight=0,
    tenant_processes=0,
    tenants=(),
)


class FakeGate:
    """A gate that answers with the counters it was given."""

    def __init__(self) -> None:
        self.next = COUNTS
        self.closed: Sequence[Closing] = ()

    def counts(self) -> DeviceCounts:
        return self.next

    def requests(self, after: int) -> Sequence[Request]:
        return ()

    def closings(self, after: int) -> Sequence[Closing]:
        return [closing for closing in self.closed if closing.number > after]

    def start(self) -> None: ...

    def close(self) -> None: ...

    def renew(self, until: float) -> None: ...

    def set_riders(self, riders: int) -> None:
        pass

    def reset(self, slot: int) -> bool:
        return True


def _fractions(*samples: tuple[float, float, int]) -> tuple[float, float]:
    gate, window = FakeGate(), Window()
    for now, idle, processes in samples:
        gate.next = replace(COUNTS, now=now, idle_seconds=idle, harvested_seconds=idle / 2, online_processes=processes)
        window.update(gate, 60.0)  # type: ignore[arg-type]
    return window.fractions()


def test_the_time_before_the_engine_attached_does_not_count() -> None:
    assert _fractions((0, 0, 0), (50, 0, 0), (52, 0, 1), (62, 8, 1)) == pytest.approx((0.8, 0.4))


def test_an_engine_that_returns_starts_a_new_window() -> None:
    assert _fractions((0, 0, 1), (10, 10, 1), (11, 10, 0), (20, 10, 1), (24, 11, 1)) == pytest.approx((0.25, 0.125))


def test_without_an_engine_nothing_is_idle() -> None:
    assert _fractions((0, 0, 0), (30, 0, 0)) == (0.0, 0.0)


def test_fractions_tell_how_much_time_they_cover() -> None:
    gate, window = FakeGate(), Window()
    assert window.covered == 0.0
    for now, processes, covered in ((0, 0, 0), (50, 0, 50), (52, 1, 0), (58, 1, 6), (110, 1, 58), (120, 1, 62)):
        gate.next = replace(COUNTS, now=now, online_processes=processes)
        window.update(gate, 60.0)  # type: ignore[arg-type]
        assert window.covered == covered


def test_a_gate_that_was_closed_for_want_of_an_engine_was_not_busy() -> None:
    gate, window = FakeGate(), Window()

    def closings(now: float, processes: int, *closed: Closing) -> list[tuple[float, float | None, float | None]]:
        gate.next, gate.closed = replace(COUNTS, now=now, online_processes=processes), closed
        window.update(gate, 60.0)  # type: ignore[arg-type]
        return [(closing.closed, closing.acknowledged, closing.opened) for closing in window.closings]

    first = Closing(1, 10.0, 10.1, 20.0, 1, for_request=True)
    away = Closing(2, 30.0, 30.1, None, 1, for_request=False)
    assert closings(40, 0, first, away) == [(10.0, 10.1, 20.0), (30.0, 30.1, None)]
    # The engine attaches at 50 and is ready at 51.
    assert closings(50, 1, first, away) == [(50.0, None, None)]
    ready = replace(away, opened=51.0)
    assert closings(52, 1, first, ready) == [(50.0, None, 51.0)]
    busy = Closing(3, 53.0, 53.1, 54.0, 1, for_request=True)
    assert closings(55, 1, first, ready, busy) == [(50.0, None, 51.0), (53.0, 53.1, 54.0)]


def memory_at(time):
    return MemorySample(time, 7)


def test_memory_is_kept_for_the_window_and_seldom_enough():
    window = Window()
    for half_second in range(400):
        window.remember(memory_at(half_second / 2), seconds=60.0)
    assert [sample.time for sample in window.memory] == [139.5 + half / 2 for half in range(121)]
    window = Window()
    for half_second in range(40_000):
        window.remember(memory_at(half_second / 2), seconds=20_000.0)
    assert len(window.memory) <= 2049
    assert window.memory[0].time == 0.0


def test_memory_before_an_engine_attached_is_forgotten():
    gate, window = FakeGate(), Window()
    window.remember(memory_at(0.0), seconds=60.0)
    gate.next = replace(COUNTS, online_processes=1)
    window.update(gate, 60.0)
    assert not window.memory

"""What is reported of a device that is open beside requests."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from node_agent.test_window import COUNTS, FakeGate
from reports import snapshot

from rowen.crds.harvest.busy import decode, grid
from rowen.crds.harvest.node_harvest import DeviceHarvest, NodeHarvestStatus
from rowen.crds.harvest.spatial import Spatial
from rowen.node_agent.devices.counts import Closing
from rowen.node_agent.report.change import Written, due
from rowen.node_agent.report.metrics import Metrics
from rowen.node_agent.report.shares import spatial, until
from rowen.node_agent.report.status import device_detail, device_harvest, node_status
from rowen.node_agent.report.window import Window

GRID = grid(11000.0, 60.0)


def shared(number: int, closed: float, opened: float | None, share: float | None = None) -> Closing:
    return Closing(number, closed, closed + 0.001, opened, 1, for_request=False, share=share)


WHOLE, FIRST, SECOND = shared(1, 10.0, 12.0), shared(2, 20.0, 21.0, 0.3), shared(3, 24.0, 25.0, 0.6)
IDLE = shared(4, 26.0, 27.0)


def report(*closings: Closing, told: Spatial | None = None) -> DeviceHarvest:
    one = snapshot(closings=closings, spatial=told)
    return device_harvest(one, [one], window=60.0, over=GRID, unix_offset=10000.0)


def test_a_close_lasts_until_all_of_the_device_is_open_or_the_next_one() -> None:
    ends = [end for _, end in until((WHOLE, FIRST, SECOND, IDLE))]
    assert ends == [12.0, 24.0, 26.0, 27.0]
    assert [end for _, end in until([FIRST])] == [inf]
    assert [end for _, end in until([shared(5, 30.0, None)])] == [inf]
    assert list(until(())) == []


def test_the_mean_share_is_by_time() -> None:
    # 3 s at 0.3, 1 s at 0.6; how long in all is the counter's word.
    found = spatial((WHOLE, FIRST, SECOND, IDLE), 0.0, 40.0, 4.0)
    assert found == Spatial(share=0.375, open_fraction=0.1)


def test_the_window_cuts_what_began_before_it_and_lasts_on() -> None:
    assert spatial([FIRST, SECOND], 23.0, 27.0, 3.0) == Spatial(share=0.5, open_fraction=0.75)
    assert spatial([FIRST, SECOND], 25.5, 29.5, 1.0) == Spatial(share=0.6, open_fraction=0.25)
    assert spatial([FIRST], 30.0, 40.0, 10.0) == Spatial(share=0.3, open_fraction=1.0)


@pytest.mark.parametrize(
    ("closings", "seconds"),
    [((), 0.0), ((WHOLE,), 0.0), ((shared(5, 30.0, None),), 0.0), ((FIRST,), 0.0), ((WHOLE,), 2.0)],
)
def test_where_nothing_was_open_beside_requests(closings: Sequence[Closing], seconds: float) -> None:
    assert spatial(closings, 0.0, 40.0, seconds) is None
    # Opened after the counters were read.
    assert spatial([FIRST], 0.0, 20.5, 1.0) is None


def test_an_opening_whose_end_is_missing_says_nothing_of_the_mean() -> None:
    later = replace(SECOND, number=9)
    assert spatial([FIRST, later], 0.0, 40.0, 20.0) == Spatial(share=0.6, open_fraction=0.5)


def test_counters_that_ran_on_are_clipped() -> None:
    found = spatial([FIRST], 21.0, 31.0, 10.1)
    assert found is not None
    assert found.open_fraction == 1.0


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Closing], float]:
    """Closings in their order, and the time after them."""
    at, closings = 0.0, []
    for number in range(draw(st.integers(0, 8))):
        closed = at + draw(st.floats(0.01, 9.0))
        at = closed + draw(st.floats(0.01, 9.0))
        closings.append(shared(number, closed, at, draw(st.sampled_from((None, 0.1, 0.5, 0.9)))))
    return closings, at + draw(st.floats(0.01, 9.0))


@given(histories())
def test_all_time_is_closed_whole_or_shared(history: tuple[list[Closing], float]) -> None:
    closings, end = history
    busy = sum(min(last, end) - closing.closed for closing, last in until(closings))
    ends = [*(closing.closed for closing in closings), end][1:]
    lengths = [last - (closing.opened or 0.0) for closing, last in zip(closings, ends, strict=True)]
    open_at_all = sum(lengths) + (closings[0].closed if closings else end)
    parts = [(length, one.share) for length, one in zip(lengths, closings, strict=True) if one.share is not None]
    beside = sum(length for length, _ in parts)
    assert busy + open_at_all - beside == pytest.approx(end)
    found = spatial(closings, 0.0, end, beside)
    assert (found is None) == (not parts)
    if found is not None:
        weighted = sum(length * share for length, share in parts)
        assert found.share * found.open_fraction * end == pytest.approx(weighted, rel=0.02)


def stretches(device: DeviceHarvest) -> list[tuple[float, float]]:
    """The runs of busy cells, seconds of the monotonic clock."""
    assert device.busy is not None
    bits = decode(device.busy, GRID.cells).bits
    runs = [(busy, list(run)) for busy, run in groupby(range(GRID.cells), key=lambda cell: bits >> cell & 1)]
    start = GRID.start - 10000.0
    return [(start + run[0] / 16, start + (run[-1] + 1) / 16) for busy, run in runs if busy]


def test_open_at_a_share_is_closed_to_jobs_on_several_devices() -> None:
    first, second, idle = shared(1, 950.0, 951.0, 0.3), shared(2, 954.0, 955.0, 0.6), shared(3, 956.0, 957.0)
    assert stretches(report(first, second, idle)) == [(950.0, 957.0)]
    assert stretches(report(idle, shared(4, 990.0, 991.0, 0.9))) == [(956.0, 957.0), (990.0, 1000.0)]


def test_a_close_beside_a_share_is_no_stop_for_a_request() -> None:
    assert device_detail(snapshot(closings=(FIRST, SECOND)), report()).stops is None


def read(window: Window, gate: FakeGate, now: float, seconds: float, *closings: Closing, processes: int = 1) -> None:
    share = closings[-1].share if closings else None
    gate.next = replace(COUNTS, now=now, online_processes=processes, shared_seconds=seconds, share=share)
    gate.closed = closings
    window.update(gate, 60.0)  # type: ignore[arg-type]


def test_the_window_tells_what_was_open() -> None:
    gate, window = FakeGate(), Window()
    assert window.spatial() is None
    read(window, gate, 0.0, 100.0)
    assert window.spatial() is None
    read(window, gate, 22.0, 101.0, WHOLE, FIRST)
    assert window.spatial() == Spatial(share=0.3, open_fraction=0.0455)
    read(window, gate, 40.0, 104.0, WHOLE, FIRST, SECOND, IDLE)
    assert window.spatial() == Spatial(share=0.375, open_fraction=0.1)
    read(window, gate, 100.0, 104.0, WHOLE, FIRST, SECOND, IDLE)
    assert window.spatial() is None
    assert not window.closings


def test_an_opening_that_is_longer_than_the_window_is_remembered() -> None:
    gate, window = FakeGate(), Window()
    read(window, gate, 0.0, 0.0)
    for now in range(30, 400, 10):
        read(window, gate, float(now), now - 21.0, WHOLE, FIRST)
    assert window.spatial() == Spatial(share=0.3, open_fraction=1.0)
    assert list(window.closings) == [FIRST]
    read(window, gate, 400.0, 374.0, WHOLE, FIRST, replace(IDLE, number=3, closed=395.0, opened=396.0))
    assert [closing.number for closing in window.closings] == [2, 3]
    read(window, gate, 456.0, 374.0, WHOLE, FIRST, replace(IDLE, number=3, closed=395.0, opened=396.0))
    assert [closing.number for closing in window.closings] == [3]


def test_an_opening_from_between_two_looks_belongs_to_the_engine_that_has_attached() -> None:
    gate, window = FakeGate(), Window()
    read(window, gate, 10.0, 0.0, processes=0)
    # It attached after 20 s, and got a request before it was seen at 22 s.
    read(window, gate, 22.0, 1.0, WHOLE, FIRST)
    assert [(closing.number, closing.closed) for closing in window.closings] == [(2, 22.0)]
    read(window, gate, 24.0, 3.0, WHOLE, FIRST)
    assert window.spatial() == Spatial(share=0.3, open_fraction=1.0)


def test_it_is_little_on_the_wire_and_comes_back() -> None:
    told = Spatial(share=0.375, open_fraction=0.1)
    status, without = (
        node_status([snapshot(spatial=each)], now=11000.0, window=60.0, unix_offset=10000.0) for each in (told, None)
    )
    [device] = status.to_wire()["devices"]
    assert device["spatial"] == {"share": 0.375, "openFraction": 0.1}
    assert NodeHarvestStatus.from_wire(status.to_wire()) == status
    assert "spatial" not in without.to_wire()["devices"][0]
    assert "mode" not in device["tenants"][0]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, None, False),
        (None, (0.5, 0.01), False),
        (None, (0.2, 0.05), True),
        ((0.2, 0.5), (0.22, 0.5), False),
        ((0.2, 0.5), (0.32, 0.5), True),
        ((0.9, 0.5), (0.9, 0.46), False),
        ((0.2, 0.5), (0.2, 0.4), True),
        ((0.9, 0.04), None, False),
    ],
)
def test_it_is_written_when_it_has_moved_by_much(
    before: tuple[float, float] | None, after: tuple[float, float] | None, *, expected: bool
) -> None:
    def status(told: Iterable[float] | None) -> NodeHarvestStatus:
        device = report(told=Spatial(**dict(zip(("share", "open_fraction"), told, strict=True))) if told else None)
        found = node_status([], now=11000.0, window=60.0, unix_offset=10000.0)
        return found.model_copy(update={"devices": [device.model_copy(update={"tenants": []})]})

    assert due(Written(0.0, status(before)), status(after), 30.0, 60.0) is expected
    assert not due(Written(0.0, status(before)), status(after), 1.0, 60.0)


def test_metrics() -> None:
    metrics, labels = Metrics("n"), {"node": "n", "device": "cpu1"}

    def value(name: str) -> float | None:
        return metrics.registry.get_sample_value(name, labels)

    counts = snapshot().counts
    metrics.device("cpu1", replace(counts, shared_seconds=5.0), 0)
    assert value("rowen_device_spatial_share") == 0.0
    metrics.device("cpu1", replace(counts, shared_seconds=7.5, share=0.4), 0)
    assert value("rowen_device_spatial_share") == 0.4
    assert value("rowen_device_spatial_open_seconds_total") == 2.5

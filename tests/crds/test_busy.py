"""Busy time as bitmaps: what they keep of it, how they travel, and what is refused."""

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rowen.crds.harvest.busy import (
    MOST_CELLS,
    MOST_TEXT,
    BusyCells,
    BusyGrid,
    busy_cells,
    decode,
    encode,
    grid,
    together,
)
from rowen.crds.harvest.node_harvest import NodeHarvestStatus

EIGHT = BusyGrid(start=1000.0, cell_seconds=0.5, cells=8)
"""Four seconds from 1000 on."""


@pytest.mark.parametrize(
    ("end", "window", "start", "cell", "cells"),
    [
        # 60 s / 1024 = 58.6 ms: 1/16 s is the next power of two. The whole cells before the end.
        (1000.0, 60.0, 940.0, 0.0625, 960),
        (1000.06, 60.0, 940.0, 0.0625, 960),
        (1000.0625, 60.0, 940.0625, 0.0625, 960),
        (1000.0, 10.0, 990.0, 2.0**-6, 640),
        (1000.0, 1.024, 1000.0 - 1.0234375, 2.0**-9, 524),
        (1_000_000.0, 86400.0, 7137 * 128.0, 128.0, 675),
        (100_096.0, 1024.0 * 1024, 0.0, 1024.0, 1024),
    ],
)
def test_a_grid(end: float, window: float, start: float, cell: float, cells: int) -> None:
    assert grid(end, window) == BusyGrid(start=start, cell_seconds=cell, cells=cells)


@pytest.mark.parametrize(
    ("stretches", "bits"),
    [
        ((), 0),
        (((1000.0, 1004.0),), 0b11111111),
        (((1000.5, 1001.5),), 0b00000110),
        # Clipped to the grid, also where there is no end.
        (((900.0, 1000.5), (1003.5, float("inf"))), 0b10000001),
        (((900.0, 1000.0), (1004.0, 1010.0)), 0),
        # Half of a cell is rounded up, less is not.
        (((1000.0, 1000.25),), 0b00000001),
        (((1000.0, 1000.2),), 0),
        # 0.4 and 0.4 of two cells: what the first lost is told in the second; the third has lost again.
        (((1000.0, 1000.2), (1000.5, 1000.7)), 0b00000010),
        # 0.6 and 0.6: the first said too much, so the second says nothing (0.2 in all) and the third (0.8) says it.
        (((1000.0, 1000.3), (1000.5, 1000.8), (1001.0, 1001.3)), 0b00000101),
        # Parts of one cell count together, and a whole cell is told as it is, whatever is owed.
        (((1000.0, 1000.15), (1000.3, 1000.45)), 0b00000001),
        (((1000.0, 1000.2), (1000.5, 1001.0), (1001.0, 1001.2)), 0b00000110),
        # Three quarters of the first cell and a quarter of the third: 1, 1, and -0.25 + 0.25.
        (((1000.125, 1001.125),), 0b00000011),
    ],
)
def test_cells_of_stretches(stretches: tuple[tuple[float, float], ...], bits: int) -> None:
    assert busy_cells(stretches, EIGHT) == BusyCells(bits, 8)


def test_the_oldest_cells_are_in_the_first_byte_and_its_lowest_bits() -> None:
    assert encode(BusyCells(0b10_00000001, 10)) == b64encode(bytes([0b00000001, 0b10])).decode()
    assert decode("AQI=", 10) == BusyCells(0b10_00000001, 10)


def test_devices_together() -> None:
    assert together([BusyCells(0b0011, 4), BusyCells(0b0110, 4)]) == BusyCells(0b0111, 4)
    assert together([BusyCells(0b0011, 4), BusyCells(0b0110, 4)]).fraction == 0.75
    assert together([]).fraction == 0.0


@given(st.data())
def test_bitmaps_survive_the_wire(data: st.DataObject) -> None:
    cells = data.draw(st.integers(1, MOST_CELLS))
    busy = BusyCells(data.draw(st.integers(0, 2**cells - 1)), cells)
    text = encode(busy)
    assert len(text) <= MOST_TEXT
    assert decode(text, cells) == busy


@given(st.text(max_size=MOST_TEXT), st.integers(1, MOST_CELLS))
def test_text_is_a_bitmap_of_that_size_or_refused(text: str, cells: int) -> None:
    try:
        busy = decode(text, cells)
    except ValueError:
        return
    assert busy.bits < 2**cells


@pytest.mark.parametrize(
    "text", ["", "AQ", "AQ==", "AQI=AQI=", "AQIB", "A I=", "AQJ\n", "AQE=\n", "é===", "AAQ=", "-_I="]
)
def test_text_that_is_no_bitmap_of_ten_cells(text: str) -> None:
    with pytest.raises(ValueError):
        decode(text, 10)


@st.composite
def stretches(draw: st.DrawFn, over: BusyGrid) -> list[tuple[float, float]]:
    """Disjoint, in order; times are multiples of a 1000th of a cell, which say nothing of where cells begin."""
    marks = draw(st.lists(st.integers(-500, 1000 * over.cells + 500), max_size=40, unique=True))
    times = [over.start + mark * over.cell_seconds / 1000 for mark in sorted(marks)]
    return list(zip(times[::2], times[1::2], strict=False))


def clipped(spans: list[tuple[float, float]], begin: float, end: float) -> float:
    return sum(max(0.0, min(b, end) - max(a, begin)) for a, b in spans)


WIDE = BusyGrid(start=16.0, cell_seconds=0.25, cells=100)


@given(stretches(WIDE))
def test_busy_time_up_to_any_cell_is_kept_to_half_a_cell(spans: list[tuple[float, float]]) -> None:
    bits = busy_cells(spans, WIDE).bits
    for cells in range(WIDE.cells + 1):
        told = (bits & ((1 << cells) - 1)).bit_count() * WIDE.cell_seconds
        true = clipped(spans, WIDE.start, WIDE.start + cells * WIDE.cell_seconds)
        assert abs(told - true) <= WIDE.cell_seconds / 2 + 1e-9


@given(stretches(WIDE), stretches(WIDE))
def test_what_devices_have_in_common_is_off_by_less_than_the_cells_with_an_edge(
    first: list[tuple[float, float]], second: list[tuple[float, float]]
) -> None:
    begins = [WIDE.start + cell * WIDE.cell_seconds for cell in range(WIDE.cells)]
    edges = sum(any(_partly(spans, begin) for spans in (first, second)) for begin in begins)
    end = begins[-1] + WIDE.cell_seconds
    common = sum(clipped(first, max(a, WIDE.start), min(b, end)) for a, b in second if a < end and b > WIDE.start)
    either = clipped(first, WIDE.start, end) + clipped(second, WIDE.start, end) - common
    one, other = busy_cells(first, WIDE), busy_cells(second, WIDE)
    most = edges * WIDE.cell_seconds + 1e-6
    assert abs((one.bits & other.bits).bit_count() * WIDE.cell_seconds - common) <= most
    assert abs(together([one, other]).bits.bit_count() * WIDE.cell_seconds - either) <= most


def _partly(spans: list[tuple[float, float]], begin: float) -> bool:
    return 1e-9 < clipped(spans, begin, begin + WIDE.cell_seconds) < WIDE.cell_seconds - 1e-9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cellSeconds": 0.06}, "power of two"),
        ({"start": 940.01}, "multiple of cellSeconds"),
        ({"start": -60.0}, "greater than or equal to 0"),
        ({"start": float("nan")}, "start"),
        ({"start": 1e300}, "less than or equal"),
        ({"cellSeconds": float("nan")}, "cellSeconds"),
        ({"cellSeconds": float("inf")}, "less than or equal"),
        ({"cellSeconds": 0.0}, "greater than or equal"),
        ({"cells": 0}, "greater than or equal"),
        ({"cells": MOST_CELLS + 1}, "less than or equal"),
    ],
)
def test_a_grid_that_is_none(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        BusyGrid.from_wire({"start": 940.0, "cellSeconds": 0.0625, "cells": 960} | change)


DEVICE = {
    "id": "gpu0", "type": "cpu", "memoryBytes": 1, "harvestable": True, "gateOpen": True, "idleFraction": 0.5,
    "harvestedFraction": 0.0, "preemptions": 0,
}  # fmt: skip
GRID = {"start": 1000.0, "cellSeconds": 0.5, "cells": 10}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({"devices": [DEVICE | {"busy": "AQI="}]}, "device gpu0: busy without busyGrid"),
        ({"busyGrid": GRID, "devices": [DEVICE | {"busy": "AQI"}]}, "device gpu0: busy: 3 characters are no bitmap"),
        ({"busyGrid": GRID, "devices": [DEVICE | {"busy": "AAQ="}]}, "device gpu0: busy: 2 bytes are no bitmap"),
    ],
)
def test_a_bitmap_that_is_none_leaves_the_rest_of_the_report(status: dict[str, Any], message: str) -> None:
    read = NodeHarvestStatus.from_wire(status)
    assert read.devices[0].idle_fraction == 0.5
    with pytest.raises(ValueError, match=message):
        read.busy_cells(read.devices[0])


def test_a_report_says_when_its_devices_were_busy() -> None:
    status = NodeHarvestStatus.from_wire({"busyGrid": GRID, "devices": [DEVICE | {"busy": "AQI="}, DEVICE]})
    assert [status.busy_cells(device) for device in status.devices] == [BusyCells(0b10_00000001, 10), None]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({"busyGrid": GRID, "devices": [DEVICE | {"busy": "A" * 4 * MOST_TEXT}]}, "at most"),
        ({"devices": [DEVICE | {"idleFraction": float("nan")}]}, "idleFraction"),
        ({"devices": [DEVICE | {"available": "AAA="}, DEVICE | {"available": "AA=="}]}, "devices.1.available"),
        ({"devices": [DEVICE | {"idles": ["60s"]}]}, "idles.0"),
        ({"devices": [{name: DEVICE[name] for name in DEVICE if name != "type"}]}, "devices.0.type"),
        ({"devices": [DEVICE | {"harvestedFraction": 1.1}]}, "harvestedFraction"),
        ({"devices": [DEVICE | {"idles": ["0.5/0s"]}]}, "idles.0.seconds"),
        ({"devices": [DEVICE | {"idles": ["nan/60s"]}]}, "idles.0.fraction"),
    ],
)
def test_a_report_that_contradicts_itself(status: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        NodeHarvestStatus.from_wire(status)


@given(st.lists(st.integers(1, 90), min_size=0, max_size=90), st.booleans())
def test_stretches_come_back_as_they_were(lengths: list[int], begins_busy: bool) -> None:
    bits = at = 0
    for number, length in enumerate(lengths):
        if number % 2 != begins_busy:
            bits |= ((1 << length) - 1) << at
        at += length
    busy = BusyCells(bits, max(1, at))
    text = encode(busy)
    assert decode(text, busy.cells) == busy
    assert len(text) <= 4 * -(-busy.cells // 24)


def test_few_stretches_are_told_by_their_lengths() -> None:
    assert (encode(BusyCells(0, 900)), encode(BusyCells((1 << 900) - 1, 900))) == ("~", "~AA==")
    assert decode("~ZGQ=", 900) == BusyCells(((1 << 100) - 1) << 100, 900)


@pytest.mark.parametrize("text", ["~ZGQ=", "~gA==", "~!", "~" + "/" * 160 + "fw=="])
def test_lengths_that_are_none(text: str) -> None:
    """The last one would be a stretch of more cells than there are atoms."""
    with pytest.raises(ValueError, match=r"stretches|cut off|base64"):
        decode(text, 150)

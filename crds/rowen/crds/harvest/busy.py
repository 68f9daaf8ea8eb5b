"""When devices were busy, as a bitmap of equal cells: small on the wire, compared with whole-number arithmetic.

The grid is laid over Unix time: a cell is a power of two of seconds long and begins at a multiple of its length, so the
devices of a node, its consecutive reports and grids of other lengths line up.

**Error.** Cells that are busy or idle throughout are told exactly. The others hold an edge of a busy stretch; each is
rounded together with what the ones before it were off by, so that up to any cell, and in all, the busy time is told to
half a cell. What two devices have in common, or have together, is off by less than one cell for each cell that holds an
edge of either; such errors have either sign.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil, floor, frexp, log2
from typing import Annotated, Self

from pydantic import Field, model_validator

from rowen.crds.base import ReadModel
from rowen.crds.text.numbers import apart, joined

MOST_CELLS = 1024
"""Cells of a window at most; more than half as many, unless cells would be shorter than `_SHORTEST_SECONDS`."""
MOST_TEXT = 4 * ceil(MOST_CELLS / 8 / 3)
"""Characters of a bitmap's text at most."""
_RUNS = "~"
_SHORTEST_SECONDS, _LONGEST_SECONDS = 2.0**-10, 2.0**10
_LATEST = 2.0**36
"""Unix seconds; times of a grid are exact up to here."""


class BusyGrid(ReadModel):
    """The cells of a report's bitmaps."""

    start: Annotated[float, Field(ge=0.0, le=_LATEST)]
    """Begin of the first cell by the node's clock, Unix seconds; a multiple of `cellSeconds`."""
    cell_seconds: Annotated[float, Field(ge=_SHORTEST_SECONDS, le=_LONGEST_SECONDS)]
    """Length of a cell; a power of two."""
    cells: Annotated[int, Field(ge=1, le=MOST_CELLS)]
    """How many there are."""

    @model_validator(mode="after")
    def _lines_up(self) -> Self:
        if frexp(self.cell_seconds)[0] != 0.5:
            raise ValueError("cellSeconds must be a power of two")
        if self.start % self.cell_seconds:
            raise ValueError("start must be a multiple of cellSeconds")
        return self


@dataclass(frozen=True, slots=True)
class BusyCells:
    """When one device was busy. Only bitmaps of one grid can be compared."""

    bits: int = 0
    """Bit k: whether it was busy in cell k, the oldest first."""
    cells: int = 1
    """Cells of the grid."""

    @property
    def fraction(self) -> float:
        """Part of the time in which it was busy."""
        return self.bits.bit_count() / self.cells


NEVER_BUSY = BusyCells()
"""On any grid."""


def grid(end: float, window_seconds: float) -> BusyGrid:
    """The whole cells of a window before `end`, Unix seconds: so short that just not more than `MOST_CELLS` fit."""
    length = max(_SHORTEST_SECONDS, 2.0 ** ceil(log2(window_seconds / MOST_CELLS)))
    cells = max(1, floor(window_seconds / length))
    return BusyGrid(start=max(0, floor(end / length) - cells) * length, cell_seconds=length, cells=cells)


def busy_cells(stretches: Iterable[tuple[float, float]], over: BusyGrid) -> BusyCells:
    """The cells in which a device was busy, for disjoint busy stretches (begin and end, Unix seconds)."""
    bits, parts = 0, dict[int, float]()
    for begin, end in stretches:
        first = max(0.0, (begin - over.start) / over.cell_seconds)
        last = min(float(over.cells), (end - over.start) / over.cell_seconds)
        if first >= last:
            continue
        whole, after = ceil(first), floor(last)
        if whole > after:
            parts[after] = parts.get(after, 0.0) + last - first
            continue
        bits |= ((1 << (after - whole)) - 1) << whole
        for cell, part in ((whole - 1, whole - first), (after, last - after)):
            if part > 0.0:
                parts[cell] = parts.get(cell, 0.0) + part
    owed = 0.0
    for cell in sorted(parts):
        owed += parts[cell]
        if owed >= 0.5:
            bits |= 1 << cell
            owed -= 1.0
    return BusyCells(bits, over.cells)


def encode(busy: BusyCells) -> str:
    """As text, whichever is shorter: a bitmap, or the lengths of its stretches.

    A bitmap is base64 of its bytes, the oldest cells first, the oldest of a byte in its lowest bit. Lengths stand
    behind a `~`, as base64 of numbers of seven bits a byte, idle and busy in turn, without the last one.
    """
    bitmap = b64encode(busy.bits.to_bytes(-(-busy.cells // 8), "little")).decode()
    lengths = _RUNS + joined(_stretches(busy))
    return min(bitmap, lengths, key=len)


def decode(text: str, cells: int) -> BusyCells:
    """Of so many cells. Raises `ValueError`: not base64, or more or fewer cells than that."""
    if text.startswith(_RUNS):
        return _of_stretches(apart(text.removeprefix(_RUNS)), cells)
    size = -(-cells // 8)
    if len(text) != 4 * -(-size // 3):
        raise ValueError(f"{len(text)} characters are no bitmap of {cells} cells")
    data = b64decode(text, validate=True)
    bits = int.from_bytes(data, "little")
    if len(data) != size or bits >> cells:
        raise ValueError(f"{len(data)} bytes are no bitmap of {cells} cells")
    return BusyCells(bits, cells)


def _stretches(busy: BusyCells) -> Iterator[int]:
    """Lengths, in turn idle and busy, all but the last; the first may be 0."""
    at, rest, is_busy = 0, busy.bits, False
    while True:
        # The lowest cell of the other kind.
        turned = ~rest if is_busy else rest
        length = (turned & -turned).bit_length() - 1 if turned else busy.cells
        if length < 0 or at + length >= busy.cells:
            return
        yield length
        at, rest, is_busy = at + length, rest >> length, not is_busy


def _of_stretches(lengths: Iterable[int], cells: int) -> BusyCells:
    bits, at, is_busy = 0, 0, False
    for length in lengths:
        if at + length > cells:
            raise ValueError(f"stretches of more than {cells} cells")
        bits |= ((1 << length) - 1) << at if is_busy else 0
        at, is_busy = at + length, not is_busy
    return BusyCells(bits | (((1 << (cells - at)) - 1) << at if is_busy else 0), cells)


def together(devices: Iterable[BusyCells]) -> BusyCells:
    """The cells in which at least one of the devices was busy."""
    bits, cells = 0, 1
    for busy in devices:
        bits, cells = bits | busy.bits, max(cells, busy.cells)
    return BusyCells(bits, cells)

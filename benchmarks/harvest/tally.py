"""What a batch worker writes down of itself, and what it is told, in a file of shared memory.

Its parent reads it while the worker stands still, and need not wait for it.
"""

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

_COUNTS = struct.Struct("<QQQ")
_ORDER = struct.Struct("<Qd")
_ORDER_AT = 64


@dataclass(frozen=True)
class Counts:
    """So far."""

    tokens: int = 0
    """Worked through: of prompts, and written."""
    lost: int = 0
    """Computed, and to be computed again since memory was gone, or thrown away by a kill."""
    ready: bool = False
    """Whether the model is loaded."""


@dataclass(frozen=True)
class Order:
    """What the worker is told."""

    kills: int = 0
    """So far."""
    down_until: float = 0.0
    """In seconds of the monotonic clock; a start takes so long."""


class Tally:
    """The file, for both sides."""

    def __init__(self, path: Path) -> None:
        """Makes it where there is none."""
        if not path.exists():
            path.write_bytes(bytes(mmap.PAGESIZE))
        with path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), mmap.PAGESIZE)

    def write(self, counts: Counts) -> None:
        """By the worker alone."""
        _COUNTS.pack_into(self._page, 0, counts.tokens, counts.lost, counts.ready)

    def read(self) -> Counts:
        """What was written last."""
        tokens, lost, ready = _COUNTS.unpack_from(self._page)
        return Counts(tokens, lost, bool(ready))

    def tell(self, order: Order) -> None:
        """By the parent alone."""
        _ORDER.pack_into(self._page, _ORDER_AT, order.kills, order.down_until)

    def told(self) -> Order:
        """What was told last."""
        return Order(*_ORDER.unpack_from(self._page, _ORDER_AT))

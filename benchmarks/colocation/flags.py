"""A page that an engine, a gate and a tenant of a benchmark share: whether requests are in flight, and what follows."""

import mmap
from enum import IntEnum
from pathlib import Path

FLAGS_ENV = "ROWEN_BENCHMARK_FLAGS"
"""Path of the page, for the engine."""

_BUSY, _MODE = 0, 64


class Mode(IntEnum):
    """How the tenant that does not stand behind Rowen's gate shares the core."""

    KERNEL = 0
    """As the kernel lets it."""
    EVERY_GAP = 1
    """Behind a gate that knows no gaps of the engine's: it opens as soon as no request is in flight."""
    STEP = 2
    """It looks at the end of each of its own steps, and goes on when no request is in flight."""


class Flags:
    """The page, for all sides."""

    def __init__(self, path: Path) -> None:
        """Makes it where there is none."""
        if not path.exists():
            path.write_bytes(bytes(mmap.PAGESIZE))
        with path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), mmap.PAGESIZE)

    @property
    def busy(self) -> bool:
        """Whether the engine has requests; written by the engine alone."""
        return bool(self._page[_BUSY])

    @busy.setter
    def busy(self, busy: bool) -> None:
        self._page[_BUSY] = busy

    @property
    def mode(self) -> Mode:
        """Written by the benchmark alone."""
        return Mode(self._page[_MODE])

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self._page[_MODE] = mode

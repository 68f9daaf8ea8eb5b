"""A page by which an engine and a tuner of a benchmark take turns on a device: who may compute, and when."""

import mmap
import struct
import time
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path

TURNS_ENV = "ROWEN_BENCHMARK_TURNS"
"""Path of the page, for engine and tuner."""

_MODE, _BUSY, _PARKED = 0, 64, 128
_GRANTED, _DONE, _EVERY, _BOUND, _TTFT_BOUND = 192, 256, 320, 384, 448
_LOOK_SECONDS, _HELD_LOOK_SECONDS = 0.0005, 0.02


class Mode(IntEnum):
    """How the tuner shares the device."""

    HELD = 0
    """It stands still, from the end of an iteration on."""
    FREE = 1
    """It does not look."""
    TURNS = 2
    """While requests are in flight, one iteration each time that the engine grants it one."""


class Turns:
    """The page, for all sides. The benchmark writes mode, `every` and both bounds, the engine `busy` and `granted`."""

    def __init__(self, path: Path) -> None:
        """Makes it where there is none: held."""
        if not path.exists():
            path.write_bytes(bytes(mmap.PAGESIZE))
        with path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), mmap.PAGESIZE)

    def start(self) -> None:
        """For a tuner that begins: held, and not standing still yet."""
        self._page[:] = bytes(mmap.PAGESIZE)

    @property
    def mode(self) -> Mode:
        """How the tuner shares."""
        return Mode(self._page[_MODE])

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self._page[_MODE] = mode

    @property
    def every(self) -> int:
        """Steps of the engine between two iterations; 0: as many as dynamic temporal sharing says."""
        return self._count(_EVERY)

    @every.setter
    def every(self, steps: int) -> None:
        self._set(_EVERY, steps)

    @property
    def bound(self) -> float | None:
        """Of the time per token, in seconds, that iterations keep, in place of `every`; None: that counts."""
        return struct.unpack_from("<d", self._page, _BOUND)[0] or None

    @bound.setter
    def bound(self, seconds: float | None) -> None:
        struct.pack_into("<d", self._page, _BOUND, seconds or 0.0)

    @property
    def ttft_bound(self) -> float:
        """Of the time to the first token, in seconds, that iterations keep too where `bound` counts."""
        return float(struct.unpack_from("<d", self._page, _TTFT_BOUND)[0])

    @ttft_bound.setter
    def ttft_bound(self, seconds: float) -> None:
        struct.pack_into("<d", self._page, _TTFT_BOUND, seconds)

    @property
    def busy(self) -> bool:
        """Whether the engine has requests."""
        return bool(self._page[_BUSY])

    @busy.setter
    def busy(self, busy: bool) -> None:
        self._page[_BUSY] = busy

    @property
    def parked(self) -> bool:
        """Whether the tuner stands still."""
        return bool(self._page[_PARKED])

    def grant(self) -> None:
        """The engine's: one iteration, which has ended when this returns, or when turns are off."""
        self._set(_GRANTED, self._count(_DONE) + 1)
        self._await(lambda: self._count(_DONE) >= self._count(_GRANTED))

    def take(self) -> None:
        """The engine's, before a step: the device is its own when this returns, or turns are off."""
        self.busy = True
        self._await(lambda: self.parked)

    def pass_on(self) -> None:
        """The tuner's, after an iteration: returns when it may begin the next one."""
        self._set(_DONE, self._count(_DONE) + 1)
        while True:
            self._page[_PARKED] = not self._may_run()
            # Looked at again: the engine may have become busy while the tuner said that it runs.
            if not self.parked and self._may_run():
                return
            time.sleep(_HELD_LOOK_SECONDS if self.mode is Mode.HELD else _LOOK_SECONDS)

    def _may_run(self) -> bool:
        mode = self.mode
        if mode is Mode.TURNS:
            return not self.busy or self._count(_GRANTED) > self._count(_DONE)
        return mode is Mode.FREE

    def _await(self, come: Callable[[], bool]) -> None:
        while self.mode is Mode.TURNS and not come():
            time.sleep(_LOOK_SECONDS)

    def _count(self, place: int) -> int:
        return int(struct.unpack_from("<Q", self._page, place)[0])

    def _set(self, place: int, value: int) -> None:
        struct.pack_into("<Q", self._page, place, value)

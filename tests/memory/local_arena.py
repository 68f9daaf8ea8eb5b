"""A fake of the device's pool inside the test's own process: handles are taken away by a call of the test."""

import mmap
import threading
import time
from collections.abc import Sequence

from typing_extensions import override

from rowen.runtime.memory.arena import Arena

RUBBISH = 0xFF
"""What a taken handle reads as: as floating-point numbers, not-a-number."""


class LocalArena(Arena):
    """An arena without an owner. `take` is what the owner would do, from any thread.

    The owner takes while all of the process stands still, so no other call may see a half of it: hence the lock.
    """

    def __init__(self, capacity: int, handle_bytes: int = 2 * 2**20, grant: int | None = None) -> None:
        self.handle_bytes = handle_bytes
        self.capacity = capacity
        self._memory = mmap.mmap(-1, capacity * handle_bytes)
        self._buffer = memoryview(self._memory)
        self._grant = capacity if grant is None else grant
        self.room = capacity
        """Handles for which there is memory: where the pod's limit is near, fewer than are granted."""
        self._lost: list[int] = []
        self.lock = threading.RLock()
        self.mapped: set[int] = set()
        self._taken = 0
        self.wanted = 0
        self.used = 0

    @property
    @override
    def buffer(self) -> memoryview:
        return self._buffer

    @property
    @override
    def grant(self) -> int:
        return self._grant

    @property
    @override
    def taken(self) -> int:
        with self.lock:
            return self._taken

    @override
    def map(self, handles: Sequence[int]) -> int:
        with self.lock:
            known = self.mapped | set(self._lost)
            if len(set(handles)) < len(handles) or any(not 0 <= h < self.capacity or h in known for h in handles):
                raise ValueError(f"outside the arena, twice, or mapped already: {list(handles)}")
            count = max(0, min(len(handles), min(self._grant, self.room) - len(self.mapped)))
            for handle in handles[:count]:
                self._fill(handle, 0)
            self.mapped.update(handles[:count])
            return count

    @override
    def unmap(self, handles: Sequence[int]) -> None:
        with self.lock:
            if len(set(handles)) < len(handles) or not set(handles) <= self.mapped | set(self._lost):
                raise ValueError(f"never mapped, or twice: {list(handles)}")
            self._lost = [handle for handle in self._lost if handle not in handles]
            for handle in self.mapped & set(handles):
                self.mapped.discard(handle)
                self._fill(handle, RUBBISH)

    @override
    def lost(self) -> list[int]:
        with self.lock:
            lost, self._lost = self._lost, []
            return lost

    @override
    def want(self, handles: int) -> None:
        self.wanted = handles

    @override
    def use(self, handles: int) -> None:
        self.used = handles

    @override
    def wait(self, grant: int, timeout_seconds: float) -> bool:
        end = time.monotonic() + timeout_seconds
        while self._grant < grant and time.monotonic() < end:
            time.sleep(0.001)
        return self._grant >= grant

    def take(self, handles: Sequence[int]) -> None:
        """Takes mapped handles away, and the grant of them."""
        with self.lock:
            assert set(handles) <= self.mapped
            for handle in handles:
                self.mapped.discard(handle)
                self._lost.append(handle)
                self._fill(handle, RUBBISH)
            self._grant -= len(handles)
            self._taken += len(handles)

    def set_grant(self, grant: int) -> None:
        """Changes the grant; takes nothing away."""
        with self.lock:
            self._grant = grant

    def _fill(self, handle: int, value: int) -> None:
        start = handle * self.handle_bytes
        self._buffer[start : start + self.handle_bytes] = bytes([value]) * self.handle_bytes

"""The arena, a slab at a time."""

import threading
import time

import torch

from rowen.runtime.memory.arena import Arena
from rowen.runtime.vllm.elastic.geometry import Geometry

_RETRY_SECONDS = 0.001


class SlabMemory:
    """Calls the arena from two threads, one call at a time, and knows which handles are mapped.

    A call may wait for the other thread's, and mapping a slab may take milliseconds. `grant`, `taken`, `mapped` and
    `say` never wait.
    """

    def __init__(self, arena: Arena, geometry: Geometry) -> None:
        self._arena = arena
        self._geometry = geometry
        self._bytes = torch.frombuffer(arena.buffer, dtype=torch.uint8)
        # Guards the fields below and all calls of the arena that are more than a reading.
        self._calls = threading.Lock()
        self._mapped: set[int] = set()
        self._taken = arena.taken
        self._said = self._to_say = (0, 0)

    @property
    def grant(self) -> int:
        """Most handles that may be mapped now."""
        return self._arena.grant

    @property
    def mapped(self) -> int:
        """Handles that are mapped, as far as `losses` has told."""
        return len(self._mapped)

    @property
    def has_losses(self) -> bool:
        """Whether something was taken that `losses` has not told yet."""
        return self._arena.taken != self._taken

    def losses(self) -> set[int]:
        """Slabs of which handles were taken away since the last call."""
        taken = self._arena.taken
        with self._calls:
            lost = self._arena.lost()
            # What is taken from here on makes another loss, whether it is among these or not.
            self._taken = taken
            self._mapped.difference_update(lost)
        return {self._geometry.slab_of_handle(handle) for handle in lost}

    def missing(self, slab: int) -> int:
        """Handles of the slab that are not mapped."""
        return sum(handle not in self._mapped for handle in self._geometry.handles_of(slab))

    def map(self, slab: int) -> None:
        """Maps what the slab lacks; in part, or nothing, when the grant is not enough."""
        with self._calls:
            handles = [handle for handle in self._geometry.handles_of(slab) if handle not in self._mapped]
            count = self._arena.map(handles)
            self._mapped.update(handles[:count])

    def unmap(self, slab: int) -> None:
        """Gives back what the slab has."""
        with self._calls:
            handles = [handle for handle in self._geometry.handles_of(slab) if handle in self._mapped]
            self._arena.unmap(handles)
            self._mapped.difference_update(handles)

    def wait(self, slabs: int, timeout_seconds: float) -> None:
        """Waits until the grant allows so many slabs more than are mapped, or for so long."""
        with self._calls:
            self._speak()
            grant = self.mapped + slabs * self._geometry.handles_per_slab
            if self._arena.grant < grant:
                self._arena.wait(grant, timeout_seconds)
                return
        # It is granted and could not be mapped: the machine has no memory, or the other thread is about to.
        time.sleep(min(timeout_seconds, _RETRY_SECONDS))

    def say(self, used: int, wanted: int) -> None:
        """Tells the owner how many handles are in use and how many would be mapped if they could."""
        self._to_say = (used, wanted)
        self.speak()

    def speak(self) -> None:
        """Says what `say` could not, since the other thread was calling."""
        if self._calls.acquire(blocking=False):
            try:
                self._speak()
            finally:
                self._calls.release()

    def zero(self, block: int) -> None:
        """Zeroes the block; what of it is not mapped stays meaningless."""
        size = self._geometry.block_bytes
        self._bytes[block * size : (block + 1) * size].zero_()

    def _speak(self) -> None:
        saying = self._to_say
        if saying != self._said:
            self._arena.use(saying[0])
            self._arena.want(saying[1])
            self._said = saying

"""The arena, a slab at a time."""

import threading
import time

import torch

from rowen.runtime.memory.arena import Arena
from rowen.runtime.vllm.elastic.geometry import Geometry

_RETRY_SECONDS = 0.001


class SlabMemory:
    """Calls the arena from two threads, one call at a time, and knows which handles are mapped.

    A call may wait for the other thread's, and mapping a slab may take milliseconds. The properties and `say` never
    wait.
    """

    def __init__(self, arena: Arena, geometry: Geometry) -> None:
        self._arena = arena
        self._geometry = geometry
        self._bytes = torch.frombuffer(arena.buffer, dtype=torch.uint8)
        # Guards the fields below and all calls of the arena that are more than a reading.
        self._calls = threading.Lock()
        self._mapped: set[int] = set()
        # Handles that were mapped when the last slab got no more, although more were granted; else None.
        self._room: int | None = None
        self._taken = arena.taken
        self._said = self._to_say = (0, 0)

    @property
    def grant(self) -> int:
        """Most handles that may be mapped now."""
        return self._arena.grant

    @property
    def most(self) -> int:
        """The same, or fewer where the pod's memory limit is near, as far as the last mapping has shown."""
        # Read once: the other thread may be mapping.
        room = self._room
        return self.grant if room is None else min(self.grant, room)

    @property
    def is_limited(self) -> bool:
        """Whether more is granted than can be mapped."""
        return self.most < self.grant

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
            stopped_short = count < len(handles) and self.mapped < self._arena.grant
            self._room = self.mapped if stopped_short else None

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
        # It is granted. Either the other thread is about to map it, or it cannot be mapped: nobody tells when the
        # process needs less for itself, and each try reads the files of the pod's limit.
        time.sleep(timeout_seconds if self.is_limited else min(timeout_seconds, _RETRY_SECONDS))

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
        """Zeroes what of the block is mapped; the rest will be when it is, and would be a page fault for each page."""
        block_bytes, handle_bytes = self._geometry.block_bytes, self._geometry.handle_bytes
        size = min(block_bytes, handle_bytes)
        for handle in self._geometry.handles_of(block // self._geometry.blocks_per_slab):
            if handle in self._mapped:
                begin = max(block * block_bytes, handle * handle_bytes)
                self._bytes[begin : begin + size].zero_()

    def _speak(self) -> None:
        saying = self._to_say
        if saying != self._said:
            self._arena.use(saying[0])
            self._arena.want(saying[1])
            self._said = saying

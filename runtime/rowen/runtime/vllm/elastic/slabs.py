"""Which slabs of the cache have memory, and which to map or to give back."""

import heapq
from array import array
from collections.abc import Callable, Iterable, Mapping
from itertools import chain

from rowen.runtime.vllm.elastic.geometry import Geometry


def give_back(handles: int, slab_handles: int, idle: Iterable[int], used: Mapping[int, int]) -> list[int]:
    """The slabs to give back for so many handles: those that nobody uses, in this order, then the least used.

    `used` tells how many blocks are in use of each of the others.
    """
    wanted = -(-handles // slab_handles)
    chosen = [slab for slab, _ in zip(idle, range(wanted), strict=False)]
    if len(chosen) < wanted:
        chosen += sorted(used, key=lambda slab: (used[slab], slab))[: wanted - len(chosen)]
    return chosen


class Slabs:
    """What each slab is used for.

    A slab is *open* when all of its handles are mapped and its free blocks may be handed out. It is *draining* when it
    is to be given back as soon as none of its blocks is in use. Else it is *out*.
    """

    def __init__(self, geometry: Geometry, has_content: Callable[[int], bool]) -> None:
        """All slabs are out. `has_content` tells whether a slab holds cached blocks."""
        self._geometry = geometry
        self._has_content = has_content
        self._per_slab = geometry.blocks_per_slab
        self._open = bytearray(geometry.slabs)
        self._used = array("L", bytes(array("L").itemsize * geometry.slabs))
        # Nobody uses a block of these, the least recently used first; a dict keeps that order and lets go of any.
        self._bare: dict[int, None] = {}
        self._cached: dict[int, None] = {}
        self._out = [slab for slab in range(geometry.slabs) if geometry.blocks_of(slab)]
        # How many handles each of these lacks; it has others, which are of no use.
        self._partial: dict[int, int] = {}
        self.draining: set[int] = set()
        self.used_blocks = 0
        """Blocks in use, the null block not among them."""
        self.used_slabs = 0
        """Slabs with a block in use."""

    def is_open(self, slab: int) -> bool:
        """Whether blocks of the slab may be handed out."""
        return bool(self._open[slab])

    def is_in(self, slab: int) -> bool:
        """Whether the slab has memory that blocks may be using: it is open or draining."""
        return bool(self._open[slab]) or slab in self.draining

    def acquire(self, block: int) -> None:
        """A block that nobody used is in use now."""
        slab = block // self._per_slab
        if not self._used[slab]:
            self.used_slabs += 1
            self._bare.pop(slab, None)
            self._cached.pop(slab, None)
        self._used[slab] += 1
        self.used_blocks += 1

    def release(self, block: int) -> None:
        """Nobody uses the block any more."""
        slab = block // self._per_slab
        self._used[slab] -= 1
        self.used_blocks -= 1
        if not self._used[slab]:
            self.used_slabs -= 1
            if self._open[slab]:
                self._rest(slab)

    def open(self, slab: int) -> None:
        """All handles of the slab are mapped; its free blocks may be handed out."""
        self.draining.discard(slab)
        self._open[slab] = 1
        if not self._used[slab]:
            self._rest(slab)

    def drain(self, slab: int) -> None:
        """The slab is to be given back."""
        self._close(slab)
        self.draining.add(slab)

    def put_out(self, slab: int, missing: int) -> None:
        """The slab lacks so many handles, and may get them again."""
        self._close(slab)
        self.draining.discard(slab)
        self._partial.pop(slab, None)
        if missing < self._geometry.handles_per_slab:
            self._partial[slab] = missing
        else:
            heapq.heappush(self._out, slab)

    def more_for(self, blocks: int) -> int:
        """Slabs that so many blocks more take beside those in use."""
        # The null block takes the place of another where a slab has several. Slab 0 is the first to get memory.
        null = int(self._per_slab > 1)
        null_in_use = null if self._used[0] else 0
        beyond = blocks - (self.used_slabs * self._per_slab - self.used_blocks - null_in_use)
        return -(-(beyond + null - null_in_use) // self._per_slab) if beyond > 0 else 0

    def is_partial(self, slab: int) -> bool:
        """Whether the slab is out and has memory."""
        return slab in self._partial

    def take_out(self, handles: int) -> int | None:
        """The slab that gets memory next: the partial one that lacks the fewest handles, else the lowest.

        None when it lacks more than so many, or when all are in.
        """
        if not self._partial:
            return heapq.heappop(self._out) if self._out and self._geometry.handles_per_slab <= handles else None
        slab = min(self._partial, key=self._lack)
        if self._partial[slab] > handles:
            return None
        del self._partial[slab]
        return slab

    def take_partial(self) -> int | None:
        """A slab of whose handles some have memory, which is of no use: that with the fewest is given back first."""
        if not self._partial:
            return None
        slab = max(self._partial, key=self._lack)
        del self._partial[slab]
        return slab

    def take_scattered(self) -> int | None:
        """A partial slab to give back for another one's sake: two halves are of no use, and may be a whole."""
        return self.take_partial() if len(self._partial) > 1 else None

    def take_drained(self) -> int | None:
        """A draining slab of which no block is in use; it is out of here until it is put somewhere else."""
        slab = next((slab for slab in self.draining if not self._used[slab]), None)
        if slab is not None:
            self.draining.discard(slab)
        return slab

    def surplus(self, handles: int) -> list[int]:
        """The open slabs to give back for so many handles: first those without content, the least recently used."""
        per_slab = self._geometry.handles_per_slab
        used: dict[int, int] = {}
        if handles > (len(self._bare) + len(self._cached)) * per_slab:
            used = {slab: count for slab, count in enumerate(self._used) if count and self._open[slab]}
        return give_back(handles, per_slab, chain(self._bare, self._cached), used)

    def _lack(self, slab: int) -> tuple[int, int]:
        return self._partial[slab], slab

    def _close(self, slab: int) -> None:
        self._open[slab] = 0
        self._bare.pop(slab, None)
        self._cached.pop(slab, None)

    def _rest(self, slab: int) -> None:
        (self._cached if self._has_content(slab) else self._bare)[slab] = None

"""`ElasticCache`: vLLM's blocks follow the arena's handles, and those follow the grant."""

import threading
from typing import TYPE_CHECKING

from rowen.runtime.memory.arena import Arena
from rowen.runtime.vllm.elastic.free_queue import FreeQueue
from rowen.runtime.vllm.elastic.geometry import Geometry
from rowen.runtime.vllm.elastic.slab_memory import SlabMemory
from rowen.runtime.vllm.elastic.slabs import Slabs

if TYPE_CHECKING:
    from vllm.v1.core.block_pool import BlockPool
    from vllm.v1.core.kv_cache_utils import KVCacheBlock


class ElasticCache:
    """No block is handed out without memory.

    Two threads work on it. The engine's holds `lock` while blocks change hands, and maps by itself only what it cannot
    go on without. The keeper's calls `balance` and does the rest ahead of need: mapping means zeroing, which may take a
    millisecond for a handle, so it happens while nobody holds `lock`.
    """

    def __init__(self, arena: Arena, geometry: Geometry, pool: "BlockPool") -> None:
        """Takes over the pool's free blocks; none has memory yet."""
        self._geometry = geometry
        self._pool = pool
        self._memory = SlabMemory(arena, geometry)
        self._slabs = Slabs(geometry, self._has_content)
        self._queue = FreeQueue(pool, self._slabs, geometry.blocks_per_slab)
        pool.free_block_queue = self._queue
        pool.num_gpu_blocks = 1
        self.lock = threading.RLock()
        self.unsettled = threading.Event()
        """Set when there may be work for `balance`."""

    @property
    def free_blocks(self) -> int:
        """Blocks that may be handed out now."""
        return int(self._queue.num_free_blocks)

    @property
    def most(self) -> int:
        """Most handles that may be mapped now: what is granted, or less where the pod's memory limit is near."""
        return self._memory.most

    @property
    def is_limited(self) -> bool:
        """Whether more is granted than can be mapped, as far as the last mapping has shown."""
        return self._memory.is_limited

    def lost_blocks(self) -> set[int]:
        """Blocks whose memory was taken away since the last call; none of them is handed out or found any more.

        The caller holds `lock`, and lets go of what it has of them before it gives it back.
        """
        blocks: set[int] = set()
        if self._memory.has_losses:
            for slab in self._memory.losses():
                blocks.update(self._geometry.blocks_of(slab))
                if self._slabs.is_in(slab):
                    self._withdraw(slab)
                    self._put_out(slab)
                elif self._slabs.is_partial(slab):
                    self._put_out(slab)
        return blocks

    def scrub(self, blocks: set[int]) -> None:
        """Makes blocks with meaningless content fit for use: they are not found any more, and zeroed.

        The attention kernels multiply what lies behind the end of a sequence by 0, which does not help against
        something that is not a number. The caller holds `lock`, and nothing computes on the blocks.
        """
        self._pool.evict_blocks(blocks)
        for block in blocks:
            self._memory.zero(block)

    def claim(self, blocks: int) -> None:
        """Maps until so many blocks are free or the grant is used up; the caller holds `lock` and waits for it."""
        while self.free_blocks < blocks and self._claim_slab():
            pass

    def wait(self, blocks: int, timeout_seconds: float) -> None:
        """Waits until the grant allows for so many free blocks, or for so long. The caller does not hold `lock`."""
        slabs = -(-(blocks - self.free_blocks) // self._geometry.blocks_per_slab)
        # The keeper may have got them meanwhile.
        if slabs > 0:
            self._memory.wait(slabs, timeout_seconds)

    def tell(self, more_blocks: int) -> None:
        """Tells the owner what is in use, and that so many blocks more would be if they could. Never waits."""
        slabs, per_slab = self._slabs, self._geometry.handles_per_slab
        used, more = slabs.used_slabs * per_slab, slabs.more_for(more_blocks) * per_slab
        self._memory.say(used, min(used + more, self._geometry.handles))
        if self._slabs.draining or self._memory.grant != self._memory.mapped:
            self.unsettled.set()

    def balance(self) -> bool:
        """Maps or gives back one slab where the grant is another than what is mapped; False when it cannot."""
        with self.lock:
            slab, lacks = self._next_work()
        self._memory.speak()
        if slab is None:
            return False
        self._change(slab, lacks)
        with self.lock:
            return self._settle(slab, lacks)

    def _next_work(self) -> tuple[int | None, bool]:
        """A slab that is nobody else's until it is admitted or put out, and whether it is to be mapped."""
        # Until a loss has been told it is not known what is mapped. Who has blocks hears of it first; an idle engine
        # does not ask.
        if self._memory.has_losses:
            if self._slabs.used_blocks:
                return None, False
            self.scrub(self.lost_blocks())
        spare = self._memory.grant - self._memory.mapped
        if spare < 0:
            return self._next_out(-spare), False
        for slab in list(self._slabs.draining):
            self._admit(slab)
        return self._next_in(spare)

    def _next_out(self, handles: int) -> int | None:
        partial = self._slabs.take_partial()
        if partial is not None:
            return partial
        draining = self._slabs.draining
        for slab in self._slabs.surplus(handles - len(draining) * self._geometry.handles_per_slab):
            self._withdraw(slab)
            self._slabs.drain(slab)
        return self._slabs.take_drained()

    def _next_in(self, spare: int) -> tuple[int | None, bool]:
        """A slab to map, or else one to give back so that another can be."""
        slab = self._slabs.take_out(spare)
        return (self._slabs.take_scattered(), False) if slab is None else (slab, True)

    def _claim_slab(self) -> bool:
        spare = self._memory.grant - self._memory.mapped
        if spare < 0 or self._memory.has_losses:
            return False
        if self._slabs.draining:
            self._admit(next(iter(self._slabs.draining)))
            return True
        slab, lacks = self._next_in(spare)
        if slab is None:
            return False
        self._change(slab, lacks)
        return self._settle(slab, lacks)

    def _change(self, slab: int, lacks: bool) -> None:
        """Maps the slab or gives it back."""
        if lacks:
            self._memory.map(slab)
        else:
            self._memory.unmap(slab)

    def _settle(self, slab: int, lacks: bool) -> bool:
        """Places the slab that was mapped or given back; whether that worked, or may when it is tried again."""
        if self._place(slab) is lacks:
            return True
        # Where the pod's memory limit leaves less than the grant, that shows only when mapping stops short.
        other = self._slabs.take_scattered()
        if other is None:
            return False
        self._memory.unmap(other)
        self._put_out(other)
        return True

    def _place(self, slab: int) -> bool:
        """Admits the slab if it is whole, and returns that; what was mapped may have been taken already."""
        whole = not self._memory.missing(slab)
        if whole:
            self._admit(slab)
        else:
            self._put_out(slab)
        return whole

    def _admit(self, slab: int) -> None:
        """The slab's free blocks may be handed out from now on."""
        self._slabs.open(slab)
        self._queue.admit(block for block in self._blocks(slab) if block.ref_cnt == 0)

    def _withdraw(self, slab: int) -> None:
        """The slab's blocks are not handed out or found any more."""
        if self._slabs.is_open(slab):
            free = [block for block in self._blocks(slab) if block.ref_cnt == 0]
            self._queue.withdraw(free)
        self._pool.evict_blocks(set(self._geometry.blocks_of(slab)))

    def _put_out(self, slab: int) -> None:
        self._slabs.put_out(slab, self._memory.missing(slab))

    def _blocks(self, slab: int) -> "list[KVCacheBlock]":
        return [self._pool.blocks[block] for block in self._geometry.blocks_of(slab)]

    def _has_content(self, slab: int) -> bool:
        return any(block.block_hash is not None for block in self._blocks(slab))

"""vLLM's queue of free blocks, without those that have no memory."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from typing_extensions import override
from vllm.v1.core.kv_cache_utils import FreeKVCacheBlockQueue

from rowen.runtime.vllm.elastic.slabs import Slabs

if TYPE_CHECKING:
    from vllm.v1.core.block_pool import BlockPool
    from vllm.v1.core.kv_cache_utils import KVCacheBlock


class FreeQueue(FreeKVCacheBlockQueue):  # type: ignore[misc]
    """A block of a slab that is not open is kept out when it becomes free."""

    def __init__(self, pool: "BlockPool", slabs: Slabs, blocks_per_slab: int) -> None:
        """An empty queue: blocks come in by `admit`."""
        super().__init__([])
        self._pool = pool
        self._slabs = slabs
        self._per_slab = blocks_per_slab

    @override
    def popleft(self) -> "KVCacheBlock":
        block = super().popleft()
        self._slabs.acquire(block.block_id)
        return block

    @override
    def popleft_n(self, n: int) -> "list[KVCacheBlock]":
        blocks: list[KVCacheBlock] = super().popleft_n(n)
        for block in blocks:
            self._slabs.acquire(block.block_id)
        return blocks

    @override
    def remove(self, block: "KVCacheBlock") -> None:
        super().remove(block)
        self._slabs.acquire(block.block_id)

    @override
    def append(self, block: "KVCacheBlock") -> None:
        self.append_n([block])

    @override
    def append_n(self, blocks: "list[KVCacheBlock]") -> None:
        super().append_n(self._released(blocks))
        self._count()

    @override
    def prepend_n(self, blocks: "list[KVCacheBlock]") -> None:
        super().prepend_n(self._released(blocks))
        self._count()

    def admit(self, blocks: "Iterable[KVCacheBlock]") -> None:
        """Blocks that nobody uses have memory now; they go before those that hold something."""
        super().prepend_n(list(blocks))
        self._count()

    def withdraw(self, blocks: "Iterable[KVCacheBlock]") -> None:
        """Free blocks are to be kept out."""
        for block in blocks:
            super().remove(block)
        self._count()

    def _released(self, blocks: "list[KVCacheBlock]") -> "list[KVCacheBlock]":
        for block in blocks:
            self._slabs.release(block.block_id)
        kept = {block.block_id for block in blocks if not self._slabs.is_open(block.block_id // self._per_slab)}
        if kept:
            self._pool.evict_blocks(kept)
        return [block for block in blocks if block.block_id not in kept]

    def _count(self) -> None:
        # What is kept out is neither used nor free: vLLM takes all that is not free for used. 1 is the null block.
        self._pool.num_gpu_blocks = 1 + self.num_free_blocks + self._slabs.used_blocks

"""How blocks of the cache are allocated where online requests come first."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from vllm.v1.request import RequestStatus

from rowen.runtime.vllm.rows.riders import replaced

if TYPE_CHECKING:
    from vllm.v1.core.kv_cache_manager import KVCacheBlocks, KVCacheManager
    from vllm.v1.request import Request


class Blocks:
    """Those of an engine's cache."""

    def __init__(self, manager: "KVCacheManager") -> None:
        self._manager = manager
        self._needed = 0

    @property
    def free(self) -> int:
        """How many are, or may be once what is found in them is forgotten."""
        free: int = self._manager.block_pool.get_num_free_blocks()
        return free

    @contextmanager
    def allocated(self, allocate: "Callable[..., KVCacheBlocks | None]") -> Iterator[None]:
        """Meanwhile vLLM allocates by it, and what it needs is noted."""
        coordinator = self._manager.coordinator
        blocks_of = coordinator.get_num_blocks_to_allocate

        def noted(*args: Any, **kwargs: Any) -> int:
            self._needed = int(blocks_of(*args, **kwargs))
            return self._needed

        with (
            replaced(self._manager, allocate_slots=allocate),
            replaced(coordinator, get_num_blocks_to_allocate=noted),
        ):
            yield

    def would_do(self, rows: "Iterable[Request]", found: "KVCacheBlocks | None", spare: int = 0) -> bool:
        """Whether that which just found no blocks would, and leave so many spare, if none of these rows had any.

        `found`: what it found in the prefix cache. None of that would do for something else, and nothing that an online
        request has, too.
        """
        held = Counter(
            block.block_id
            for row in rows
            for group in self._manager.get_blocks(row.request_id).blocks
            for block in group
            if not block.is_null
        )
        for group in found.blocks if found else ():
            for block in group:
                held.pop(block.block_id, None)
        blocks = self._manager.block_pool.blocks
        obtained = sum(int(blocks[block].ref_cnt == rows_with_it) for block, rows_with_it in held.items())
        return self._needed + spare <= self.free + obtained


class Beginning:
    """Allocates blocks to rows as vLLM does, with so many left free by one that begins.

    vLLM lets none begin behind one that finds too few.
    """

    def __init__(self, blocks: Blocks, allocate: "Callable[..., KVCacheBlocks | None]", reserve: int) -> None:
        self._blocks, self._allocate, self._reserve = blocks, allocate, reserve
        self.stuck: Request | None = None
        """The row that found too few."""
        self._found: KVCacheBlocks | None = None

    def __call__(self, row: "Request", *args: Any, **kwargs: Any) -> "KVCacheBlocks | None":
        """In place of the cache manager's."""
        if row.status is RequestStatus.RUNNING:
            return self._allocate(row, *args, **kwargs)
        kwargs["reserved_blocks"] = self._reserve
        blocks = self._allocate(row, *args, **kwargs)
        if blocks is None:
            self.stuck, self._found = row, kwargs.get("new_computed_blocks")
        return blocks

    @property
    def may_find_blocks(self) -> bool:
        """Whether there is any that one may have."""
        return self._blocks.free > self._reserve

    def waits_for(self, rows: "Iterable[Request]") -> bool:
        """Whether it would find enough if these rows had ended."""
        return self._blocks.would_do(rows, self._found, self._reserve)

"""How blocks of the cache are allocated where online requests come first."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

from vllm.v1.request import RequestStatus

from rowen.runtime.vllm.rows.riders import replaced

if TYPE_CHECKING:
    from vllm.v1.core.kv_cache_manager import KVCacheBlocks, KVCacheManager
    from vllm.v1.core.kv_cache_utils import KVCacheBlock
    from vllm.v1.request import Request


class Blocks:
    """Those of an engine's cache."""

    def __init__(self, manager: "KVCacheManager") -> None:
        self._manager = manager
        self._needed = 0
        self._whole = False

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
            # Asked first about all that the request has, then about what the step computes of it.
            self._whole = bool(kwargs.get("apply_admission_cap"))
            return self._needed

        with (
            replaced(self._manager, allocate_slots=allocate),
            replaced(coordinator, get_num_blocks_to_allocate=noted),
        ):
            yield

    @property
    def lacked_whole(self) -> bool:
        """Whether what just found no blocks would not have fitted as a whole; else too few were there for its step."""
        return self._whole

    def watermark(self, request: "Request", has_scheduled_reqs: bool = True, **_: Any) -> int:
        """How many vLLM leaves free when it allocates to the request, called so."""
        begins = request.status in (RequestStatus.WAITING, RequestStatus.PREEMPTED)
        return int(self._manager.watermark_blocks) if has_scheduled_reqs and begins else 0

    def would_do(self, rows: "Sequence[Request]", found: "KVCacheBlocks | None", spare: int = 0) -> bool:
        """Whether that which just found no blocks would, and leave so many spare, if none of these rows had any.

        `found`: what it found in the prefix cache. None of that would do for something else, and nothing that an online
        request has, too. No more is looked at than it takes to tell.
        """
        lacking = self._needed + spare - self.free
        groups = [group for row in rows for group in self._manager.get_blocks(row.request_id).blocks]
        if lacking > sum(len(group) for group in groups):
            return False
        kept = {block.block_id for group in found.blocks for block in group} if found else set()
        return lacking <= 0 or any(
            number >= lacking for number, _ in enumerate(_only_in(chain.from_iterable(groups), kept), 1)
        )


def _only_in(blocks: "Iterable[KVCacheBlock]", kept: set[int]) -> "Iterator[KVCacheBlock]":
    """Those of which all holders are among these; each once, when its last holder comes."""
    seen: Counter[int] = Counter()
    for block in blocks:
        if block.is_null or block.block_id in kept:
            continue
        seen[block.block_id] += 1
        if seen[block.block_id] == block.ref_cnt:
            yield block


class Beginning:
    """Allocates blocks to rows as vLLM does, with so many left free by one that begins.

    vLLM lets none begin behind one that finds too few.
    """

    def __init__(
        self, blocks: Blocks, allocate: "Callable[..., KVCacheBlocks | None]", reserve: int, beside_online: bool
    ) -> None:
        self._blocks, self._allocate, self._reserve = blocks, allocate, reserve
        self._beside_online = beside_online
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
    def room(self) -> int:
        """How many blocks one that begins may have."""
        return self._blocks.free - self._reserve

    def waits_for(self, rows: "Sequence[Request]") -> bool:
        """Whether it would find enough if these rows had ended."""
        # vLLM leaves no reserve when it looks at a row as a whole, and nothing is reserved once nobody is there.
        spare = self._reserve if self._beside_online and not self._blocks.lacked_whole else 0
        return self._blocks.would_do(rows, self._found, spare)

"""`ElasticScheduler`: vLLM's scheduler on a cache whose memory comes and goes.

Written against vLLM 0.32.0, whose scheduler interface is not public: test again on every bump.
"""

import time
from collections.abc import Iterable
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override
from vllm.v1.core.sched.async_scheduler import AsyncScheduler

from rowen.runtime.memory.shortage import Shortage
from rowen.runtime.vllm.elastic.attachment import attachment, geometry_of
from rowen.runtime.vllm.elastic.cache import ElasticCache
from rowen.runtime.vllm.elastic.keeper import Keeper
from rowen.runtime.vllm.elastic.loss import Holding, affected

if TYPE_CHECKING:
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.engine import EngineCoreOutputs
    from vllm.v1.outputs import ModelRunnerOutput
    from vllm.v1.request import Request, RequestStatus

STARVED_WAIT_SECONDS = 0.02
"""How long an engine that can run nothing waits for memory before it looks at its input again."""


class ElasticScheduler(AsyncScheduler):  # type: ignore[misc]
    """Requests that lose memory go back to waiting, with their input and the tokens generated so far.

    What a step computed counts only for requests from which nothing was taken until its output is there. Without an
    arena this is vLLM's scheduler.
    """

    shortage_wait_seconds: ClassVar[float] = 0.0
    """How long a step waits for memory before vLLM preempts a running request for the lack of it."""
    running: "list[Request]"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._cache: ElasticCache | None = None
        self._shortage = Shortage("no request fits into the memory that is granted; they wait")
        self._limit = Shortage("no request fits into what the pod's memory limit leaves of the grant; they wait")
        elastic = attachment()
        if elastic is None:
            return
        self._geometry = geometry_of(elastic, self.kv_cache_config)
        self._ledger = elastic.part.ledger
        self._cache = ElasticCache(elastic.part.arena, self._geometry, self.kv_cache_manager.block_pool)
        self._keeper = Keeper(self._cache)

    @override
    def schedule(self, throttle_prefills: bool = False) -> "SchedulerOutput":
        if self._cache is None:
            return super().schedule(throttle_prefills)
        self._make_room(self._cache)
        with self._cache.lock:
            self._drop_lost(self._cache)
            output = super().schedule(throttle_prefills)
            self._note(output)
            self._tell(self._cache)
        self._await_memory(self._cache)
        return output

    @override
    def update_from_output(
        self, scheduler_output: "SchedulerOutput", model_runner_output: "ModelRunnerOutput"
    ) -> "dict[int, EngineCoreOutputs]":
        if self._cache is None:
            untouched: dict[int, EngineCoreOutputs] = super().update_from_output(scheduler_output, model_runner_output)
            return untouched
        with self._cache.lock:
            # The step has been computed: what is taken from here on does not change its output.
            self._drop_lost(self._cache)
            outputs: dict[int, EngineCoreOutputs] = super().update_from_output(scheduler_output, model_runner_output)
            self._tell(self._cache)
        return outputs

    @override
    def finish_requests(
        self, request_ids: "str | Iterable[str] | None", finished_status: "RequestStatus"
    ) -> "list[Request]":
        if self._cache is None:
            return self._finish(request_ids, finished_status)
        with self._cache.lock:
            # Blocks of a request that is gone stay as prefixes: what is meaningless has to be known before.
            self._drop_lost(self._cache)
            finished = self._finish(request_ids, finished_status)
            self._tell(self._cache)
        return finished

    @override
    def reset_prefix_cache(self, *args: Any, **kwargs: Any) -> bool:
        if self._cache is None:
            return bool(super().reset_prefix_cache(*args, **kwargs))
        with self._cache.lock:
            self._drop_lost(self._cache)
            return bool(super().reset_prefix_cache(*args, **kwargs))

    @override
    def shutdown(self) -> None:
        if self._cache is not None:
            self._keeper.stop()
        super().shutdown()

    @override
    def _free_request_blocks(self, request: "Request") -> None:
        super()._free_request_blocks(request)
        if self._cache is not None and self._ledger is not None:
            self._ledger.drop(request.request_id)

    def _finish(self, request_ids: "str | Iterable[str] | None", status: "RequestStatus") -> "list[Request]":
        finished: list[Request] = super().finish_requests(request_ids, status)
        return finished

    def _drop_lost(self, cache: ElasticCache) -> None:
        """Returns the requests that lost something to waiting."""
        lost = cache.lost_blocks()
        if not lost:
            return
        requests = {request.request_id: request for request in self.running}
        hit, meaningless = affected(lost, {name: self._holding(request) for name, request in requests.items()})
        # All steps so far have been computed, so nothing is written to the blocks any more.
        cache.scrub(meaningless)
        self.running = [request for request in self.running if request.request_id not in hit]
        # The last first, since each goes before those that wait.
        for request in [requests[name] for name in reversed(requests) if name in hit]:
            self._preempt_request(request, time.monotonic(), drop_stale_output=True)
            # It may be resumed in this very step, and comes back as one that was not in the last.
            self.prev_step_scheduled_req_ids.discard(request.request_id)

    def _holding(self, request: "Request") -> Holding:
        computed = request.num_computed_tokens - request.num_in_flight_tokens
        ids: list[int] = self.kv_cache_manager.get_block_ids(request.request_id)[0]
        return Holding(ids, max(0, computed) // self.block_size)

    def _held_blocks(self, request: "Request") -> int:
        """Blocks that the request has. Their list is not copied: in each step that would be all blocks in use."""
        return len(self.kv_cache_manager.get_blocks(request.request_id).blocks[0])

    def _make_room(self, cache: ElasticCache) -> None:
        """Maps at once what the next step cannot do without; waits a moment before a running request is preempted."""
        end = time.monotonic() + self.shortage_wait_seconds
        with cache.lock:
            needed = self._claim(cache)
            if needed > cache.free_blocks and self.shortage_wait_seconds:
                self._tell(cache)
        # More than once: what is granted may be with the keeper for another moment.
        while needed > cache.free_blocks and (left := end - time.monotonic()) > 0:
            cache.wait(needed, left)
            with cache.lock:
                needed = self._claim(cache)

    def _claim(self, cache: ElasticCache) -> int:
        """Maps what the next step needs, as far as the grant goes; returns the blocks that running requests need."""
        self._drop_lost(cache)
        step = self.max_num_scheduled_tokens // self.block_size + 1
        # A step fills so many blocks, and each request may begin one.
        most = step + len(self.running)
        needed = 0
        # Running requests get theirs first: what is claimed for those that wait has to be beside that.
        if self.waiting or cache.free_blocks < most:
            needed = min(most, sum(self._growth(request) for request in self.running))
            cache.claim(needed)
        if needed <= cache.free_blocks and self.waiting:
            begun = needed + self._begun_need()
            # Running requests wait for the zeroing, too: in each step not longer than for the blocks that it may fill.
            cache.claim(min(begun, cache.free_blocks + step) if self.running else begun)
        return needed

    def _growth(self, request: "Request") -> int:
        """Blocks that the running request needs in the next step."""
        left = request.num_tokens_with_spec + request.num_output_placeholders - request.num_computed_tokens
        tokens = request.num_computed_tokens + min(left, self.max_num_scheduled_tokens)
        return max(0, self._blocks(tokens) - self._held_blocks(request))

    def _seated(self) -> "Iterable[Request]":
        """The waiting requests that there is a seat for."""
        return islice(self.waiting, max(0, self.max_num_running_reqs - len(self.running)))

    def _waiting_need(self) -> int:
        """Blocks for all of them."""
        return sum(self._blocks(request.num_tokens + 1) for request in self._seated())

    def _begun_need(self) -> int:
        """Blocks for those that the next step may begin: the first, which has to fit, and those that it reads whole."""
        blocks, tokens = 0, self.max_num_scheduled_tokens
        for request in self._seated():
            tokens -= request.num_tokens
            if blocks and tokens < 0:
                break
            blocks += self._blocks(request.num_tokens + 1)
        return blocks

    def _blocks(self, tokens: int) -> int:
        size: int = self.block_size
        return -(-tokens // size)

    def _note(self, output: "SchedulerOutput") -> None:
        """Enters into the ledger what the requests of this step have and what they would have to compute again."""
        if self._ledger is None:
            return
        cached = output.scheduled_cached_reqs
        new = ((request.req_id, request.block_ids) for request in output.scheduled_new_reqs)
        for name, groups in chain(new, zip(cached.req_ids, cached.new_block_ids, strict=True)):
            if groups is not None:
                self._ledger.add(name, self._geometry.handles_of_blocks(groups[0]))
        self._ledger.charge({name: self.requests[name].num_tokens for name in output.num_scheduled_tokens})

    def _tell(self, cache: ElasticCache) -> None:
        """Says what is in use, and what all requests that could run would use with a block to grow each."""
        filling = sum(
            max(0, self._blocks(request.num_tokens) - self._held_blocks(request)) for request in self._inflight_prefills
        )
        cache.tell(len(self.running) + filling + self._waiting_need())

    def _await_memory(self, cache: ElasticCache) -> None:
        """Waits a moment when memory is all that is missing to run anything."""
        first = next(iter(self.waiting), None)
        if self.running or first is None or not self.has_unfinished_requests():
            self._shortage.ends()
            self._limit.ends()
            return
        needed = self._blocks(first.num_tokens)
        if needed <= cache.free_blocks:
            return
        (self._limit if cache.is_limited else self._shortage).lasts(
            time.monotonic(),
            handle_bytes=self._geometry.handle_bytes,
            handles_needed=len(self._geometry.handles_of_blocks(range(1, needed + 1))),
            handles_granted=cache.most,
        )
        cache.wait(needed, STARVED_WAIT_SECONDS)

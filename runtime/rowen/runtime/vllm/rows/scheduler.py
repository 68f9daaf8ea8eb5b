"""The engine's scheduler with batch rows below all online requests.

Each step that has rows is scheduled twice: first the online requests alone, as if there were no rows, then the rows in
what is left of the step; and once more for a row that did not fit, with those behind it. Written against vLLM 0.32.0,
whose scheduler interface is not public: test again on every bump.
"""

import time
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.core.sched.request_queue import FCFSRequestQueue, RequestQueue
from vllm.v1.core.sched.scheduler import Scheduler

from rowen.runtime.coserve.lease import engine_lease
from rowen.runtime.coserve.planning.pacing import Pacing
from rowen.runtime.coserve.shared import engine_planner
from rowen.runtime.log import get_logger
from rowen.runtime.vllm.riding.composition import load_of
from rowen.runtime.vllm.rows.adapters import AdapterRoom
from rowen.runtime.vllm.rows.blocks import Beginning, Blocks
from rowen.runtime.vllm.rows.merge import add_to
from rowen.runtime.vllm.rows.obstacle import obstacle
from rowen.runtime.vllm.rows.order import Rows
from rowen.runtime.vllm.rows.pace import IdlePace, Pace
from rowen.runtime.vllm.rows.part import ASIDE_MOST, RowPart, split
from rowen.runtime.vllm.rows.prompt_logprobs import has_logits, most_tokens
from rowen.runtime.vllm.rows.riders import Riders, replaced
from rowen.runtime.vllm.rows.waiting import RowsLast

if TYPE_CHECKING:
    from vllm.v1.core.kv_cache_manager import KVCacheBlocks
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.request import Request

    from rowen.runtime.coserve.load import Load

log = get_logger()


def riding_rows(scheduler: type, pace: Pace | None = None) -> type:
    """That class of vLLM's schedulers, or of Rowen's, with batch rows that ride.

    `pace`: how much of a step they may have; by default as the engine's shared planner says. Raises `TypeError` for a
    class that is none of vLLM's. To be wrapped by `reporting`, not the other way round.
    """
    bottom = next((each for each in (AsyncScheduler, Scheduler) if issubclass(scheduler, each)), None)
    if bottom is None:
        raise TypeError(f"{scheduler.__module__}.{scheduler.__qualname__} is no scheduler of vLLM's")
    # Right above vLLM's own: what a class above it does for a step, it does once for both parts of it.
    above = RowRidingAsyncScheduler if bottom is AsyncScheduler else RowRidingScheduler
    bases = (above,) if scheduler is bottom else (scheduler, above)
    return type(f"RowRiding{scheduler.__name__}", bases, {"rowen_pace": pace})


class RowRidingScheduler(Scheduler):  # type: ignore[misc]
    """In `running` and `waiting` rows stand behind the online requests, but for the time in which a step is made."""

    rowen_pace: ClassVar[Pace | None] = None
    running: "list[Request]"
    waiting: RequestQueue

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._rows = Rows()
        self._lease = engine_lease()
        self._row_pace = type(self).rowen_pace or _engine_pace()
        self._row_blocks = Blocks(self.kv_cache_manager)
        self._most_with_logits = most_tokens(self.vllm_config.model_config.get_vocab_size())
        because = obstacle(self) if self._row_pace else "no terms on which they ride"
        if because is None:
            self.waiting = self._all_waiting = RowsLast(self.waiting, self._rows)
        else:
            log.error("batch rows cannot ride in this engine: they are served as online requests", because=because)

    @override
    def _free_blocks(self, request: "Request") -> None:
        """Whichever way a request ends, vLLM forgets it here."""
        super()._free_blocks(request)
        self._rows.end(request)
        if not self._rows:
            # No step with rows comes any more that would.
            self._wait_for_memory(True)

    @override
    def has_unfinished_requests(self) -> bool:
        """Rows that stand still are none: with nothing else to do the engine waits, and does not turn without end."""
        if not self._rows or self._lease.holds():
            return bool(super().has_unfinished_requests())
        return bool(self.get_num_unfinished_requests() > self._num_unfinished_rows())

    def _num_unfinished_rows(self) -> int:
        """As vLLM counts requests."""
        waiting = 0 if self._pause_state == PauseState.PAUSED_NEW else self._rows.waiting
        return waiting + sum(request in self._rows for request in chain(self.running, self.kv_holding_waiting))

    @override
    def schedule(self, throttle_prefills: bool = False) -> "SchedulerOutput":
        if not self._rows:
            return super().schedule(throttle_prefills)
        in_last_step = set(self.prev_step_scheduled_req_ids)
        riders = self._parted()
        try:
            with replaced(self, waiting=self._all_waiting.online):
                step = self._online_part(riders, throttle_prefills)
                tokens = self._row_tokens(riders, step)
                if tokens > 0:
                    self._add_rows(step, riders, tokens, throttle_prefills, in_last_step)
        finally:
            self.running = self.running + riders.running
            self._wait_for_memory(not riders.running)
        return step

    def _parted(self) -> Riders:
        """Takes those that run out."""
        online: list[Request] = []
        riders = Riders([], self._rows)
        for request in self.running:
            (riders.running if request in self._rows else online).append(request)
        self.running = online
        return riders

    def _online_part(self, riders: Riders, throttle_prefills: bool) -> "SchedulerOutput":
        """Schedules the online requests; where they lack a block, rows give back theirs, the last first.

        None does where all that rows would give back would not be enough.
        """
        allocate = self.kv_cache_manager.allocate_slots

        def allocated(request: "Request", *args: Any, **kwargs: Any) -> "KVCacheBlocks | None":
            blocks = allocate(request, *args, **kwargs)
            if blocks is not None or not riders.running:
                return blocks
            spare = self._row_blocks.watermark(request, **kwargs)
            if self._row_blocks.would_do(riders.running, kwargs.get("new_computed_blocks"), spare):
                while blocks is None and riders.running:
                    self._take_blocks(riders)
                    blocks = allocate(request, *args, **kwargs)
            return blocks

        with self._row_blocks.allocated(allocated):
            return super().schedule(throttle_prefills)

    def _take_blocks(self, riders: Riders) -> None:
        """Has a row wait again, with its input and the tokens generated so far."""
        with replaced(self, waiting=self._all_waiting):
            self._preempt_request(riders.running.pop(), time.monotonic())
        riders.preempted = True

    def _wait_for_memory(self, may_wait: bool) -> None:
        """Whether the next step waits for memory of the pool (`ElasticScheduler`): that of rows which run is nearer."""
        if may_wait:
            self.__dict__.pop("shortage_wait_seconds", None)
        else:
            self.shortage_wait_seconds = 0.0

    def _row_tokens(self, riders: Riders, step: "SchedulerOutput") -> int:
        """Tokens that rows may have in this step."""
        if not self._lease.holds():
            return 0
        taken = step.total_num_scheduled_tokens
        most = min(self.max_num_scheduled_tokens, self.scheduler_config.max_num_batched_tokens) - taken
        seats = self._seats(step)
        if seats <= 0:
            return 0
        waiting = islice(self._rows.in_order(), seats) if self._takes_waiting(riders) else ()
        most = riders.wanted_tokens(most, waiting)
        if most == 0:
            return 0
        tokens = self._paced(load_of(step))
        # An engine that has nothing but rows would turn without end.
        return min(most, tokens if taken else max(1, tokens))

    def _seats(self, step: "SchedulerOutput") -> int:
        return int(self.max_num_running_reqs) - len(step.num_scheduled_tokens)

    def _takes_waiting(self, riders: Riders) -> bool:
        """Whether rows may begin: not while online requests wait, maybe for what a row would take."""
        return not (riders.preempted or self.waiting or self.kv_holding_waiting)

    def _paced(self, load: "Load") -> int:
        pace = self._row_pace or IdlePace()
        try:
            return pace.tokens(load)
        except Exception as error:
            log.error("how much rows may take is not known: they ride without online requests alone", error=str(error))
            self._row_pace = IdlePace()
            return self._row_pace.tokens(load)

    def _add_rows(
        self, step: "SchedulerOutput", riders: Riders, tokens: int, throttle_prefills: bool, in_last_step: set[str]
    ) -> None:
        """So many tokens of them."""
        part, goes_on = self._row_part(riders, step, tokens), True
        while goes_on:
            self.prev_step_scheduled_req_ids |= in_last_step
            more, begun = self._scheduled(part, riders, throttle_prefills)
            add_to(step, more)
            self.prev_step_scheduled_req_ids.update(step.num_scheduled_tokens)
            goes_on = part.schedules(more.total_num_scheduled_tokens, begun, riders)

    def _row_part(self, riders: Riders, step: "SchedulerOutput", tokens: int) -> RowPart:
        seats, room = self._seats(step), self._adapter_room(step)
        seated = [row for row in riders.running if room.takes(_adapter(row))][:seats]
        # Of the online requests, which is what `self` has here.
        beside = len(self.running)
        active, queue = min(int(self.max_num_active_reqs) - beside, seats), FCFSRequestQueue()
        allocate = self.kv_cache_manager.allocate_slots
        beginning = Beginning(self._row_blocks, allocate, self._reserve(riders), beside > 0)
        skipped: list[Request] = []
        if active > len(seated) and beginning.room > 0 and self._takes_waiting(riders):
            adapters = [adapter for adapter in self._rows.adapters() if room.takes(adapter)]
            most = 2 * (active - len(seated)) + ASIDE_MOST
            skipped, tried = split(self._rows.in_order(adapters), beginning.room, most, self._rows)
            queue.extend(tried)
        return RowPart(active, tokens, seated, queue, beginning, skipped)

    def _scheduled(self, part: RowPart, riders: Riders, throttle_prefills: bool) -> "tuple[SchedulerOutput, int]":
        """With how many rows began."""
        with (
            replaced(
                self,
                # A copy: vLLM takes out of it what it preempts.
                running=list(part.seated),
                waiting=part.queue,
                kv_holding_waiting=FCFSRequestQueue(),
                max_num_active_reqs=part.seats,
                max_num_scheduled_tokens=part.tokens,
                _reserve_prefill_lookahead=self._in_pieces,
            ),
            self._row_blocks.allocated(part.beginning),
        ):
            more = super().schedule(throttle_prefills)
            return more, riders.scheduled(part.seated, self.running)

    def _in_pieces(self, row: "Request", computed_tokens: int, tokens: int) -> int:
        """In place of what vLLM asks how many tokens of a request a step may hold."""
        most = int(super()._reserve_prefill_lookahead(row, computed_tokens, tokens))
        return min(most, self._most_with_logits) if has_logits(row) else most

    def _adapter_room(self, step: "SchedulerOutput") -> AdapterRoom:
        if self.lora_config is None:
            return AdapterRoom(0, set())
        used = {_adapter(self.requests[name]) for name in step.num_scheduled_tokens}
        return AdapterRoom(self.lora_config.max_loras, {each for each in used if each is not None})

    def _reserve(self, riders: Riders) -> int:
        """Blocks that are left to online requests when a row begins, so that it is not preempted right away."""
        if not self.running and not riders.running:
            return 0
        step: int = -(-self.max_num_scheduled_tokens // self.block_size)
        blocks: int = self.kv_cache_manager.block_pool.num_gpu_blocks
        return min(len(self.running) + step, blocks // 4)


class RowRidingAsyncScheduler(RowRidingScheduler, AsyncScheduler):  # type: ignore[misc]
    """The same for steps that are scheduled before the one before them has ended."""


def _engine_pace() -> Pace | None:
    planner = engine_planner()
    return Pacing(planner) if planner else None


def _adapter(request: "Request") -> int | None:
    return request.lora_request.lora_int_id if request.lora_request else None

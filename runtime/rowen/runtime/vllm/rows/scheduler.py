"""The engine's scheduler with batch rows below all online requests.

Each step that has rows is scheduled twice: first the online requests alone, as if there were no rows, then the rows in
what is left of the step. Written against vLLM 0.32.0, whose scheduler interface is not public: test again on every
bump.
"""

import time
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.core.sched.request_queue import FCFSRequestQueue
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import RequestStatus

from rowen.runtime.coserve.lease import engine_lease
from rowen.runtime.coserve.planning.pacing import Pacing
from rowen.runtime.coserve.shared import engine_planner
from rowen.runtime.log import get_logger
from rowen.runtime.vllm.riding.composition import load_of
from rowen.runtime.vllm.rows.adapters import AdapterRoom
from rowen.runtime.vllm.rows.marker import is_row
from rowen.runtime.vllm.rows.merge import add_to
from rowen.runtime.vllm.rows.pace import IdlePace, Pace
from rowen.runtime.vllm.rows.riders import Riders, replaced

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

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._row_ids: set[str] = set()
        """Of those that have not ended."""
        self._lease = engine_lease()
        self._row_pace = type(self).rowen_pace or _engine_pace()
        obstacle = _obstacle(self)
        if obstacle is not None:
            self._row_pace = None
            log.error("batch rows cannot ride in this engine: they are served as online requests", because=obstacle)

    @override
    def add_request(self, request: "Request") -> None:
        if self._row_pace is not None and is_row(request.request_id):
            self._row_ids.add(request.request_id)
        super().add_request(request)

    @override
    def has_unfinished_requests(self) -> bool:
        """Rows that stand still are none: with nothing else to do the engine waits, and does not turn without end."""
        if not self._row_ids or self._lease.holds():
            return bool(super().has_unfinished_requests())
        return bool(self.get_num_unfinished_requests() > self._num_unfinished_rows())

    def _num_unfinished_rows(self) -> int:
        """As vLLM counts requests."""
        queues = [self.running, self.kv_holding_waiting]
        if self._pause_state != PauseState.PAUSED_NEW:
            queues.append(self.waiting)
        return sum(request.request_id in self._row_ids for request in chain(*queues))

    @override
    def schedule(self, throttle_prefills: bool = False) -> "SchedulerOutput":
        if not self._row_ids:
            return super().schedule(throttle_prefills)
        self._row_ids.intersection_update(self.requests)
        in_last_step = set(self.prev_step_scheduled_req_ids)
        riders = self._parted()
        try:
            step = self._online_part(riders, throttle_prefills)
            tokens = self._row_tokens(riders, step)
            if tokens > 0:
                in_this_step = set(self.prev_step_scheduled_req_ids)
                self.prev_step_scheduled_req_ids |= in_last_step
                add_to(step, self._row_part(riders, step, tokens, throttle_prefills))
                self.prev_step_scheduled_req_ids |= in_this_step
        finally:
            self.running = self.running + riders.running
            for row in riders.waiting:
                self.waiting.add_request(row)
            self._wait_for_memory(not riders.running)
        return step

    def _parted(self) -> Riders:
        """Takes the rows out."""
        rows = self._row_ids
        riders = Riders(
            [request for request in self.running if request.request_id in rows],
            [request for request in self.waiting if request.request_id in rows],
        )
        if riders.running:
            self.running = [request for request in self.running if request.request_id not in rows]
        if riders.waiting:
            self.waiting.remove_requests(riders.waiting)
        return riders

    def _online_part(self, riders: Riders, throttle_prefills: bool) -> "SchedulerOutput":
        """Schedules the online requests; where they lack a block, rows give back theirs, the last first.

        None does where all that rows have would not be enough.
        """
        manager = self.kv_cache_manager
        allocate, blocks_of = manager.allocate_slots, manager.coordinator.get_num_blocks_to_allocate
        needed = 0

        def counted(*args: Any, **kwargs: Any) -> int:
            nonlocal needed
            needed = int(blocks_of(*args, **kwargs))
            return needed

        def allocated(*args: Any, **kwargs: Any) -> "KVCacheBlocks | None":
            blocks = allocate(*args, **kwargs)
            while blocks is None and riders.running and needed <= self._blocks_with(riders):
                self._take_blocks(riders)
                blocks = allocate(*args, **kwargs)
            return blocks

        with (
            replaced(manager, allocate_slots=allocated),
            replaced(manager.coordinator, get_num_blocks_to_allocate=counted),
        ):
            return super().schedule(throttle_prefills)

    def _blocks_with(self, riders: Riders) -> int:
        """Blocks that would be free, at most, if no row had any."""
        manager = self.kv_cache_manager
        held = {block for row in riders.running for group in manager.get_block_ids(row.request_id) for block in group}
        free: int = manager.block_pool.get_num_free_blocks()
        return free + len(held)

    def _take_blocks(self, riders: Riders) -> None:
        """Has a row wait again, with its input and the tokens generated so far."""
        row, queue = riders.running.pop(), FCFSRequestQueue()
        with replaced(self, waiting=queue):
            self._preempt_request(row, time.monotonic())
        riders.waiting[:0] = queue
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
        if len(step.num_scheduled_tokens) >= self.max_num_running_reqs:
            return 0
        most = riders.wanted_tokens(most, self._takes_waiting(riders))
        if most == 0:
            return 0
        tokens = self._paced(load_of(step))
        # An engine that has nothing but rows would turn without end.
        return min(most, tokens if taken else max(1, tokens))

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

    def _row_part(
        self, riders: Riders, step: "SchedulerOutput", tokens: int, throttle_prefills: bool
    ) -> "SchedulerOutput":
        """Schedules rows, so many tokens of them."""
        seats = self.max_num_running_reqs - len(step.num_scheduled_tokens)
        room = self._adapter_room(step)
        seated = [row for row in riders.running if room.takes(_adapter(row))][:seats]
        queue = FCFSRequestQueue()
        if self._takes_waiting(riders):
            queue.extend(row for row in riders.in_order() if room.takes(_adapter(row)))
        # Of the online requests, which is what `self` has until the next line.
        reserve = self._reserve(riders)
        with (
            replaced(
                self,
                # A copy: vLLM takes out of it what it preempts.
                running=list(seated),
                waiting=queue,
                kv_holding_waiting=FCFSRequestQueue(),
                max_num_active_reqs=min(self.max_num_active_reqs, seats),
                max_num_scheduled_tokens=tokens,
            ),
            replaced(self.kv_cache_manager, allocate_slots=self._keeping(reserve)),
        ):
            more = super().schedule(throttle_prefills)
            running, waiting = self.running, self.waiting
        riders.scheduled(seated, running, waiting)
        return more

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

    def _keeping(self, reserve: int) -> "Callable[..., KVCacheBlocks | None]":
        """Allocates blocks as vLLM does, with so many kept free by a row that begins."""
        allocate: Callable[..., KVCacheBlocks | None] = self.kv_cache_manager.allocate_slots

        def allocated(row: "Request", *args: Any, **kwargs: Any) -> "KVCacheBlocks | None":
            if row.status is not RequestStatus.RUNNING:
                kwargs["reserved_blocks"] = reserve
            return allocate(row, *args, **kwargs)

        return allocated


class RowRidingAsyncScheduler(RowRidingScheduler, AsyncScheduler):  # type: ignore[misc]
    """The same for steps that are scheduled before the one before them has ended."""


def _engine_pace() -> Pace | None:
    planner = engine_planner()
    return Pacing(planner) if planner else None


def _adapter(request: "Request") -> int | None:
    return request.lora_request.lora_int_id if request.lora_request else None


def _obstacle(scheduler: Scheduler) -> str | None:
    """Why rows cannot ride in an engine of its settings."""
    kinds = {
        "no terms on which they ride": scheduler._row_pace is None,
        "prefills in one piece": not scheduler.scheduler_config.enable_chunked_prefill,
        "a KV connector": scheduler.connector is not None or scheduler.ec_connector is not None,
        "speculative decoding": scheduler.num_spec_tokens > 0,
        "pipeline parallelism": scheduler.use_pp,
        "another model runner": scheduler.use_v2_model_runner,
        "layers with a state": scheduler.has_mamba_layers,
        "inputs that are no text": scheduler.max_num_encoder_input_tokens > 0 or scheduler.is_encoder_decoder,
    }
    return next((kind for kind, there in kinds.items() if there), None)

"""The engine's scheduler with prompts that wait a little, so that several are computed in one step.

They stay where vLLM has them, in its waiting queue, and are out of it only while it makes a step that is to hold none
of them: whatever else looks at the queue (aborting, pausing, counting, whether anything is unfinished) sees them.
Written against vLLM 0.32.0, whose scheduler interface is not public: test again on every bump.
"""

import time
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.core.sched.request_queue import create_request_queue
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import RequestStatus

from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.deferral import Deferral, Waiting
from rowen.runtime.log import get_logger
from rowen.runtime.vllm.riding.first_tokens import waited_seconds
from rowen.runtime.vllm.rows.marker import is_row
from rowen.runtime.vllm.rows.riders import replaced

if TYPE_CHECKING:
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.request import Request

log = get_logger()

_FRESH = (RequestStatus.WAITING, RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR)


def deferring(scheduler: type, deferral: Deferral) -> type:
    """That class of vLLM's schedulers, or of Rowen's, in which prompts wait as it says.

    Raises `TypeError` for a class that is none of vLLM's. To be wrapped by `reporting`, not the other way round.
    """
    bottom = next((each for each in (AsyncScheduler, Scheduler) if issubclass(scheduler, each)), None)
    if bottom is None:
        raise TypeError(f"{scheduler.__module__}.{scheduler.__qualname__} is no scheduler of vLLM's")
    # Right above vLLM's own: those above see in the queue what waits, as without it.
    above = DeferringAsyncScheduler if bottom is AsyncScheduler else DeferringScheduler
    bases = (above,) if scheduler is bottom else (scheduler, above)
    return type(f"Deferring{scheduler.__name__}", bases, {"rowen_deferral": deferral})


class DeferringScheduler(Scheduler):  # type: ignore[misc]
    """Either all prompts of which nothing is computed yet wait, or none. Batch rows do not."""

    rowen_deferral: ClassVar[Deferral | None] = None
    rowen_clock: ClassVar[Callable[[], float]] = time.monotonic
    running: "list[Request]"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deferral = type(self).rowen_deferral
        self._came: dict[str, float] = {}
        """When each request came of which nothing is computed yet; seconds of the clock."""
        obstacle = _obstacle(self)
        if obstacle is not None and self._deferral is not None:
            self._deferral = None
            log.error("prompts are not deferred in this engine", because=obstacle)

    @override
    def add_request(self, request: "Request") -> None:
        self._note(request)
        super().add_request(request)

    @override
    def finish_requests(self, *args: Any, **kwargs: Any) -> "list[Request]":
        finished: list[Request] = super().finish_requests(*args, **kwargs)
        for request in finished:
            self._came.pop(request.request_id, None)
        return finished

    @override
    def schedule(self, throttle_prefills: bool = False) -> "SchedulerOutput":
        if self._came and self._holds():
            return self._without_waiting(throttle_prefills)
        output = super().schedule(throttle_prefills)
        for request in output.scheduled_new_reqs if self._came else ():
            self._came.pop(request.req_id, None)
        return output

    def _without_waiting(self, throttle_prefills: bool) -> "SchedulerOutput":
        held, queue = self.waiting, create_request_queue(self.policy)
        try:
            with replaced(self, waiting=queue):
                return super().schedule(throttle_prefills)
        finally:
            # What was preempted goes on before anything begins.
            held.prepend_requests(reversed(list(queue)))

    def _note(self, request: "Request") -> None:
        if self._deferral is None or is_row(request.request_id) or request.request_id in self.requests:
            return
        try:
            self._came[request.request_id] = self._now() - waited_seconds(request.arrival_time)
        except Exception as error:
            self._end(error)

    def _holds(self) -> bool:
        """Whether what waits does not begin in this step."""
        deferral = self._deferral
        if deferral is None:
            return False
        try:
            # At any other time a look at a field.
            waiting = self._what_waits() if deferral.planner.riders_wait else None
            if waiting is None or not deferral.decide(waiting).hold:
                return False
            deferral.planner.holds = True
        except Exception as error:
            self._end(error)
            return False
        return True

    def _what_waits(self) -> Waiting | None:
        """None: nothing does, or not prompts of which nothing is computed yet alone."""
        if self.kv_holding_waiting or self._pause_state != PauseState.UNPAUSED:
            return None
        free_seats = max(0, self.max_num_running_reqs - len(self.running))
        requests = list(islice(self.waiting, free_seats))
        if not requests or not all(self._is_fresh(request) for request in requests):
            return None
        tokens = [request.num_tokens for request in requests]
        load = self._next_load()
        most = min(self.max_num_scheduled_tokens, self.scheduler_config.max_num_batched_tokens)
        return Waiting(
            prompts=len(requests),
            # Whole, also where the prefix cache has some of it: then they wait shorter than they might.
            tokens=sum(tokens),
            context=sum(each * (each + 1) // 2 for each in tokens),
            seconds=self._now() - min(self._came[request.request_id] for request in requests),
            load=load,
            free_tokens=most - load.decode_rows,
            free_seats=free_seats,
        )

    def _is_fresh(self, request: "Request") -> bool:
        # One that was preempted is not: it had its place.
        return request.request_id in self._came and request.status in _FRESH and request.num_computed_tokens == 0

    def _next_load(self) -> Load:
        """What the next step computes of online requests that have begun."""
        rows = context = prefill = 0
        for request in self.running:
            left = request.num_tokens - request.num_computed_tokens
            if is_row(request.request_id):
                continue
            if left > 1:
                prefill += left
            else:
                rows += 1
                context += request.num_tokens
        return Load(decode_rows=rows, decode_context=context, prefill_tokens=prefill)

    def _now(self) -> float:
        return type(self).rowen_clock()

    def _end(self, error: Exception) -> None:
        self._deferral = None
        self._came.clear()
        log.error("prompts are not deferred any more; the engine serves", error=f"{type(error).__name__}: {error}")


class DeferringAsyncScheduler(DeferringScheduler, AsyncScheduler):  # type: ignore[misc]
    """The same below Rowen's schedulers that are made from vLLM's asynchronous one."""


def _obstacle(scheduler: Scheduler) -> str | None:
    """Why it cannot be said what a prompt takes in an engine of its settings."""
    kinds = {
        "a KV connector": scheduler.connector is not None or scheduler.ec_connector is not None,
        "prompts in pieces (--long-prefill-token-threshold)": scheduler.scheduler_config.long_prefill_token_threshold
        > 0,
        "inputs that are no text": scheduler.max_num_encoder_input_tokens > 0 or scheduler.is_encoder_decoder,
    }
    return next((kind for kind, there in kinds.items() if there), None)

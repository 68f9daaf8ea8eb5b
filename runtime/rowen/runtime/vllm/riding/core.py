"""vLLM's engine core with riders between its steps, and while it waits for requests."""

import functools
from typing import TYPE_CHECKING, Any

from rowen.runtime.coserve.lease import engine_lease
from rowen.runtime.vllm.riding.waker import Waker

if TYPE_CHECKING:
    from rowen.runtime.vllm.riding.conductor import Conductor


def watch_cores() -> None:
    """Has each engine core of this process call its conductor, if it has one. Again does nothing.

    Raises `AttributeError` where vLLM's is not made as it was.
    """
    from vllm.v1.engine import EngineCoreRequestType
    from vllm.v1.engine.core import EngineCore, EngineCoreProc

    if getattr(EngineCore.post_step, "rowen", False):
        return
    add_request, post_step = EngineCore.add_request, EngineCore.post_step
    notify = EngineCoreProc._notify_idle_state_callbacks
    wake_up = EngineCoreRequestType.WAKEUP, None

    @functools.wraps(add_request)
    def taken_in(core: Any, request: Any, *args: Any, **kwargs: Any) -> None:
        add_request(core, request, *args, **kwargs)
        conductor = _conductor(core)
        if conductor is not None:
            conductor.arrived(request.request_id, request.arrival_time, request.num_prompt_tokens)

    @functools.wraps(post_step)
    def after_step(core: Any, *args: Any, **kwargs: Any) -> None:
        # The step's tokens are on their way to the clients by now.
        post_step(core, *args, **kwargs)
        conductor = _conductor(core)
        if conductor is not None:
            conductor.between(lambda: _nobody_knocks(core))

    @functools.wraps(notify)
    def before_waiting(core: Any) -> None:
        # vLLM calls it each time before it waits, also after it was woken.
        notify(core)
        conductor = _conductor(core)
        # Rows may ride in engines that have none, too.
        waker = Waker() if conductor is None else conductor.waker
        paused = core.is_scheduler_paused()
        if not paused:
            waker.reaches(lambda: core.input_queue.put_nowait(wake_up))
        if conductor is not None:
            # A paused engine is idle, too, and works for nobody.
            conductor.idle(lambda: not paused and _nobody_knocks(core) and core.is_running() and not core.has_work())
        # By now all was asked that may have to stand still, rows by vLLM.
        engine_lease().call_when_back(waker.wake)

    after_step.rowen = True  # type: ignore[attr-defined]
    EngineCore.add_request, EngineCore.post_step = taken_in, after_step
    EngineCoreProc._notify_idle_state_callbacks = before_waiting


def _conductor(core: Any) -> "Conductor | None":
    worker = getattr(getattr(core.model_executor, "driver_worker", None), "worker", None)
    return getattr(worker, "rowen_conductor", None)


def _nobody_knocks(core: Any) -> bool:
    """No request waits to be taken in. An engine inside its caller's process has no queue for them."""
    queue = getattr(core, "input_queue", None)
    return queue is None or queue.empty()

"""What vLLM calls in each of its processes before it is configured (entry point of `vllm.general_plugins`).

Nothing of Rowen is named in the engine's arguments: without this plugin the same command starts the same engine.
Whatever goes wrong here is told in one line, and vLLM is as it was: the engine serves, and is not harvested.
"""

import os
from collections.abc import Callable
from typing import Any

from rowen.crds.names import ENGINE_SOCKET_ENV, POOL_BYTES_ENV, RIDE_TERMS_ENV, SPATIAL_TERMS_ENV
from rowen.runtime.log import get_logger

log = get_logger()

TESTED_VERSION = "0.32."
"""Of vLLM."""
SHORTAGE_WAIT_SECONDS = 0.005
"""Memory that offline work has comes back within a millisecond or two; a preempted request is computed again."""
_SCHEDULER_WANTED = "with a memoryLimit the engine has Rowen's scheduler: leave out --scheduler-cls, or the memoryLimit"


def register() -> None:
    """Has the engine of this process tell its device what it does. Raises nothing; again does nothing."""
    if not os.environ.get(ENGINE_SOCKET_ENV):
        return
    try:
        _install()
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        log.error("the plugin does not fit: the engine serves, and is not harvested", error=told)


def _install() -> None:
    # All that may be missing is looked for before anything is changed.
    from fastapi import FastAPI
    from vllm.config import SchedulerConfig
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.version import __version__

    from rowen.runtime.vllm.middleware import LifecycleMiddleware
    from rowen.runtime.vllm.scheduler import give_up, reporting

    if getattr(SchedulerConfig.get_scheduler_cls, "rowen", False):
        return
    reporting(Scheduler)
    build, choose = FastAPI.build_middleware_stack, SchedulerConfig.get_scheduler_cls
    tested = __version__.startswith(TESTED_VERSION)
    if not tested:
        log.warning("this version of vLLM was not tried with Rowen", vllm=__version__, tried=f"{TESTED_VERSION}x")
    pooled = _pooled(tested)
    co_serving = _co_serving(tested)
    spatial = _spatial(tested)

    def built(app: FastAPI) -> Any:
        stack = build(app)
        try:
            return LifecycleMiddleware(stack, rows_ride=co_serving is not None)
        except Exception as error:
            give_up("requests cannot be told", error)
            return stack

    def chosen(config: SchedulerConfig) -> type:
        scheduler = pooled(config) if pooled else choose(config)
        if co_serving:
            scheduler = co_serving(scheduler)
        if spatial:
            scheduler = spatial(scheduler)
        try:
            waits = {"shortage_wait_seconds": SHORTAGE_WAIT_SECONDS} if pooled else {}
            return reporting(scheduler, **waits)
        except Exception as error:
            give_up("the engine's work cannot be told", error)
            return scheduler

    chosen.rowen = True  # type: ignore[attr-defined]
    SchedulerConfig.get_scheduler_cls = chosen
    FastAPI.build_middleware_stack = built  # type: ignore[method-assign,assignment]


def _pooled(tested: bool) -> Callable[[Any], type] | None:
    """With a `memoryLimit`: has the cache lie in the device's pool, and tells the scheduler that knows of it."""
    if not os.environ.get(POOL_BYTES_ENV):
        return None
    if ":" in os.environ[ENGINE_SOCKET_ENV]:
        log.error("the cache cannot lie in the pools of several devices: it has memory of its own")
        return None
    if not tested:
        log.error("the cache cannot lie in the device's pool with this version of vLLM: it has memory of its own")
        return None
    from vllm.v1.worker import cpu_worker

    from rowen.runtime.vllm.elastic.geometry import UnsuitableError
    from rowen.runtime.vllm.elastic.refusal import told
    from rowen.runtime.vllm.elastic.scheduler import ElasticScheduler
    from rowen.runtime.vllm.elastic.worker import ElasticWorker

    # vLLM makes its worker by this name.
    cpu_worker.CPUWorker = ElasticWorker

    def scheduler(config: Any) -> type:
        if config.scheduler_cls is not None:
            with told():
                raise UnsuitableError(_SCHEDULER_WANTED)
        return ElasticScheduler

    return scheduler


def _co_serving(tested: bool) -> Callable[[type], type] | None:
    """With terms: has fine-tuning ride, and tells how a scheduler becomes that of an engine with riders."""
    if not os.environ.get(RIDE_TERMS_ENV):
        return None
    if ":" in os.environ[ENGINE_SOCKET_ENV]:
        log.error("nothing rides in an engine on several devices")
        return None
    if not tested:
        log.error("nothing rides in this version of vLLM")
        return None
    try:
        return (lambda scheduler: _deferring(_with_rows(scheduler))) if _have_riders() else None
    except Exception as error:
        log.error("nothing rides in this engine", error=f"{type(error).__name__}: {error}")
        return None


def _have_riders() -> bool:
    """Has fine-tuning ride in the engine's worker. False: the terms make no sense, which was said."""
    from vllm.v1.worker import cpu_worker

    from rowen.runtime.coserve.shared import engine_terms
    from rowen.runtime.vllm.riding.core import watch_cores
    from rowen.runtime.vllm.riding.worker import riding
    from rowen.runtime.vllm.seeded import SeededWorker

    if engine_terms() is None:
        return False
    watch_cores()
    # Rows have seeds, and no job may end the engine. With a `memoryLimit` it is Rowen's worker already.
    worker = cpu_worker.CPUWorker
    cpu_worker.CPUWorker = riding(worker if issubclass(worker, SeededWorker) else SeededWorker, _board)
    return True


def _board(config: Any, model: Any) -> Any:
    # Much is imported for it, which the engine's other processes do not need.
    from rowen.runtime.vllm.riding.boarding import board

    return board(config, model)


def _with_rows(scheduler: type) -> type:
    try:
        from rowen.runtime.vllm.rows.scheduler import riding_rows

        return riding_rows(scheduler)
    except Exception as error:
        log.error("no batch rows ride in this engine", error=f"{type(error).__name__}: {error}")
        return scheduler


def _deferring(scheduler: type) -> type:
    """Where the terms say so, prompts wait for one another."""
    try:
        from rowen.runtime.coserve.planning.deferral import Deferral
        from rowen.runtime.coserve.shared import engine_planner, engine_terms
        from rowen.runtime.vllm.riding.deferring import deferring

        terms, planner = engine_terms(), engine_planner()
        return deferring(scheduler, Deferral(planner)) if terms and terms.defer_prefills and planner else scheduler
    except Exception as error:
        log.error("prompts are not deferred in this engine", error=f"{type(error).__name__}: {error}")
        return scheduler


def _spatial(tested: bool) -> Callable[[type], type] | None:
    """With terms for it: tells how a scheduler becomes one that leaves offline work a share of the device."""
    if not os.environ.get(SPATIAL_TERMS_ENV):
        return None
    if ":" in os.environ[ENGINE_SOCKET_ENV]:
        log.error("nothing runs beside the requests of an engine on several devices")
        return None
    if not tested:
        log.error("nothing runs beside the requests of this version of vLLM")
        return None
    return _with_shares


def _with_shares(scheduler: type) -> type:
    try:
        from rowen.runtime.coserve.shared import spatial_terms
        from rowen.runtime.vllm.spatial.scheduler import sharing

        terms = spatial_terms()
        return sharing(scheduler, terms) if terms else scheduler
    except Exception as error:
        log.error("nothing runs beside the requests of this engine", error=f"{type(error).__name__}: {error}")
        return scheduler

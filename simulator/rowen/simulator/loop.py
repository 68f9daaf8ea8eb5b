"""The simulation: time moves in steps; after some of them all nodes report, and the scheduler looks once.

1. A step is settled: each job has made what the gate, its neighbours and the memory allowed; some have finished, and
   leave their devices at the step's end.
2. At a pass the jobs that have arrived are shown to the scheduler, beside the nodes' reports. It learns from them
   (`observe`), and decides where there is anything to decide: where no job waits and none was promised anything, all
   would stay.
3. What it decided holds from then on.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from rowen.scheduler.decision import Action, Decision
from rowen.scheduler.history import History
from rowen.scheduler.monitor.observation import observe
from rowen.scheduler.snapshot import JobKey, JobView, Placement, PodView
from rowen.simulator.jobs import Job
from rowen.simulator.ledger import Ledger
from rowen.simulator.node.engine import Engine
from rowen.simulator.node.service import Feed, Hardware
from rowen.simulator.node.stretches import Plan, Stretches, stretches
from rowen.simulator.running import Progress, Run
from rowen.simulator.settle import Settling, settle
from rowen.simulator.shape import Shape
from rowen.simulator.variants import Variant
from rowen.simulator.world import NAMESPACE, World, job_view

_STRETCH_SECONDS = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class Counts:
    """What else happened."""

    requests: int
    reclaims: int
    """Steps in which an engine took memory from offline work, over all services."""
    passes: int
    """Looks of the scheduler in which there was anything to decide."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a simulation."""

    shape: Shape
    ledger: Ledger
    jobs: tuple[Progress, ...]
    counts: Counts
    prediction_errors: tuple[float, ...]
    """(predicted - measured) / predicted of each window that the monitor compared."""


def plan(shape: Shape, feed: Feed, engine: Engine, jobs: Iterable[Job]) -> Plan:
    """How the services are worked out."""
    hardware = Hardware(
        devices=shape.devices_per_service,
        pool_bytes=max(0, shape.memory_bytes - engine.memory_bytes),
        handle_bytes=shape.handle_bytes,
        memory=shape.memory,
    )
    lockstep = shape.services_per_node > 1 and any(job.kind.devices > 1 for job in jobs)
    return Plan(feed, engine, hardware, shape.services, lockstep)


def simulate(
    shape: Shape,
    feed: Feed,
    engine: Engine,
    jobs: tuple[Job, ...],
    variant: Variant,
    *,
    processes: int = 0,
    progress: Callable[[float], None] = lambda _: None,
) -> Outcome:
    """Runs to the end. `jobs` are in order of arrival; `progress` is told how many simulated seconds are over."""
    edges = np.arange(shape.steps + 1, dtype=np.float64) * shape.step_seconds
    simulation = _Simulation(shape, engine, jobs, variant)
    steps = max(1, round(_STRETCH_SECONDS / shape.step_seconds))
    for part in stretches(plan(shape, feed, engine, jobs), edges, steps, processes):
        simulation.stretch(part, progress)
    return simulation.outcome()


class _Simulation:
    def __init__(self, shape: Shape, engine: Engine, jobs: tuple[Job, ...], variant: Variant) -> None:
        self._shape, self._variant = shape, variant
        self._world, self._ledger = World(shape, engine), Ledger(shape)
        self._jobs = [Progress(job, job_view(job)) for job in jobs]
        self._arrived = 0
        self._views: dict[JobKey, JobView] = {}
        self._progress: dict[JobKey, Progress] = {}
        self._runs: dict[JobKey, Run] = {}
        self._history = History()
        self._errors: list[float] = []
        self._steps = self._requests = self._reclaims = self._passes = 0

    def stretch(self, part: Stretches, progress: Callable[[float], None]) -> None:
        """All steps of a stretch."""
        settling = Settling(self._shape, part)
        busy, closed = np.diff(part.busy, axis=1), np.diff(part.closed, axis=1)
        self._requests += int(part.requests.sum())
        self._reclaims += int(part.reclaims.sum())
        for step in range(len(part.edges) - 1):
            now = float(part.edges[step + 1])
            settled = settle(settling, step, list(self._runs.values()))
            self._ledger.add(busy[:, step], closed[:, step], settled.harvested)
            self._remove_finished()
            self._world.step(closed[:, step], part.cells[:, step], settled.available)
            self._steps += 1
            if self._steps % self._shape.steps_per_pass == 0:
                self._arrive(now)
                self._pass(now)
            progress(now)

    def _remove_finished(self) -> None:
        for uid in [uid for uid, run in self._runs.items() if run.progress.finished is not None]:
            del self._runs[uid], self._views[uid], self._progress[uid]

    def _arrive(self, now: float) -> None:
        while self._arrived < len(self._jobs) and self._jobs[self._arrived].job.arrival <= now:
            found = self._jobs[self._arrived]
            self._views[found.view.uid] = found.view
            self._progress[found.view.uid] = found
            self._arrived += 1

    def _pass(self, now: float) -> None:
        """Learns from the reports, and decides where a job waits or was promised something."""
        if not self._views:
            return
        snapshot = self._world.snapshot(now, self._views, list(self._runs.values()))
        snapshot = self._variant.seen(snapshot)
        policy = self._variant.policy
        observation = observe(self._history, snapshot, now, policy)
        self._history = observation.history
        self._errors += [(met.predicted - met.measured) / met.predicted for met in observation.errors]
        promised = any(run.progress.job.sla is not None for run in self._runs.values())
        if promised or len(self._runs) < len(self._views):
            self._passes += 1
            self._apply(self._variant.decide(snapshot, self._history, now, policy), now)

    def _apply(self, decision: Decision, now: float) -> None:
        self._history = replace(self._history, backoffs=decision.backoffs)
        for outcome in decision.outcomes:
            uid = outcome.job.uid
            if outcome.action is Action.PLACE and outcome.placement is not None:
                self._place(self._progress[uid], outcome.placement, now)
            elif outcome.action is Action.REVOKE and outcome.loss is not None:
                progress = self._progress[uid]
                reason = str(outcome.loss.reason)
                progress.evictions[reason] = progress.evictions.get(reason, 0) + 1
                self._views[uid] = progress.view
                del self._runs[uid]

    def _place(self, progress: Progress, placement: Placement, now: float) -> None:
        view = progress.view
        devices = self._world.devices(placement.node, placement.devices)
        each = self._shape.devices_per_service
        pod = PodView(
            NAMESPACE,
            f"{view.name}-{placement.id}",
            placement.node,
            view.devices,
            view.memory,
            view.uid,
            placement.id,
            placement.devices,
            running=True,
        )
        services = tuple(sorted({device // each for device in devices}))
        progress.placed = now if progress.placed is None else progress.placed
        self._views[view.uid] = replace(view, placement=placement)
        self._runs[view.uid] = Run(progress, placement, pod, devices, services, now + self._shape.start_seconds)

    def outcome(self) -> Outcome:
        """What came of it."""
        counts = Counts(self._requests, self._reclaims, self._passes)
        return Outcome(self._shape, self._ledger, tuple(self._jobs), counts, tuple(self._errors))

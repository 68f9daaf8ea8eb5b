"""What could have been harvested at most, by HiGHS.

Whole jobs are assigned to sets of devices, each device to one job at most (the clusters have one harvest slot for each
device, so nobody shares):

    maximise    sum over j, s of value(j, s) x(j, s),     x(j, s) in {0, 1}
    subject to  sum over s of x(j, s) <= 1 for each job, and sum over j and the s with d of x(j, s) <= 1 for each device

where s are the sets that the scheduler's own `evaluate` takes on the empty cluster: aligned, with room, and keeping the
job's SLA with its margin; value(j, s) is the promised fraction times the devices.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import highspy
from scheduling import worlds

from rowen.scheduler.decision import decide
from rowen.scheduler.history import History
from rowen.scheduler.placement.fleet.fleet import Fleet
from rowen.scheduler.placement.joint.plan import Joint
from rowen.scheduler.placement.joint.trial import tried
from rowen.scheduler.placement.search.evaluation import evaluate
from rowen.scheduler.placement.search.places import Places
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobView, NodeView

_MOST_NODES = 2000
"""Of HiGHS's tree: no clock decides which clusters count."""

Place = tuple[int, tuple[int, ...], float]
"""A job, the rows of its devices, and what is harvested there."""


def places(nodes: dict[str, NodeView], jobs: Sequence[JobView], history: History, policy: Policy) -> list[Place]:
    """Every place of every job on the empty cluster."""
    fleet = Fleet(nodes, worlds.NOW, policy)
    open_devices = [fleet.node(number).open_devices() for number in range(len(fleet.views))]
    found = []
    for number, job in enumerate(jobs):
        request = Places(fleet, history, policy).request(job, {})
        for states in (states for of_node in open_devices for states in combinations(of_node, job.devices)):
            candidate = evaluate(request, fleet, states, policy)
            if not candidate.refusal:
                found.append((number, tuple(state.row for state in states), candidate.gain))
    return found


def most(places: Sequence[Place]) -> float | None:
    """The most that can be harvested; None where HiGHS does not prove it within so many nodes of its tree."""
    if not places:
        return 0.0
    solver = highspy.Highs()
    for name, value in {"output_flag": False, "threads": 1, "mip_rel_gap": 0.0, "mip_max_nodes": _MOST_NODES}.items():
        solver.setOptionValue(name, value)
    chosen = [solver.addBinary() for _ in places]
    limits: dict[tuple[str, int], list[int]] = {}
    for at, (job, rows, _) in enumerate(places):
        limits.setdefault(("job", job), []).append(at)
        for row in rows:
            limits.setdefault(("device", row), []).append(at)
    for members in limits.values():
        solver.addConstr(sum(chosen[at] for at in members) <= 1)
    solver.maximize(sum(value * chosen[at] for at, (_, _, value) in enumerate(places)))
    proven = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return float(solver.getObjectiveValue()) if proven else None


@dataclass(frozen=True, slots=True)
class Gap:
    """The parts of the optimum that are left on one small cluster."""

    queue: float
    """By the queue's order alone: each job has its best place, one after the other."""
    decided: float
    """By the scheduler's decision."""
    joint_seconds: float
    """Processor time of choosing the places together."""


def gap(seed: int, lockstep: float, waited: float, history: History, policy: Policy) -> Gap | None:
    """Where the jobs have waited so long; None where the optimum is not known."""
    source = random.Random(seed)
    nodes = {name: replace(view, slots=len(view.devices)) for name, view in worlds.make_nodes(source, 16).items()}
    made = enumerate(worlds.make_jobs(source, 20, lockstep))
    jobs = [replace(job, created=worlds.NOW - waited + 1e-3 * number) for number, job in made]
    best = most(places(nodes, jobs, history, policy))
    if best is None:
        return None
    asked = Places(Fleet(nodes, worlds.NOW, policy), history, policy)
    queue = tried([asked.request(job, {}) for job in jobs], {}, asked.fleet, policy).total
    began = time.thread_time()
    Joint(asked.fleet, policy, worlds.NOW).plan(jobs, lambda job: asked.request(job, {}))
    took = time.thread_time() - began
    outcomes = decide(worlds.world(nodes, jobs), history, worlds.NOW, policy).outcomes
    decided = sum((found.fraction or 0.0) * found.job.devices for found in outcomes)
    return Gap(*((1.0 - harvested / best if best > 0.0 else 0.0) for harvested in (queue, decided)), took)

"""Who decides where tasks go: separate clusters, round-robin, lowest utilisation, and LeMix."""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from time import thread_time
from typing import Protocol

from mixing.node import Node, Start
from mixing.setup import NODES, STAGES
from mixing.workload import Workload

from rowen.scheduler.lemix.allocation import Allocation, Weights, allocate
from rowen.scheduler.lemix.deferral import deferral, quickest
from rowen.scheduler.lemix.lengths import Lengths
from rowen.scheduler.lemix.stage_time import StageTime
from rowen.scheduler.lemix.task import Task
from rowen.scheduler.lemix.trace import Path, empty

Placement = tuple[int, int]
"""Task and node."""


class Dispatcher(Protocol):
    """Told of all that happens; says what goes where."""

    def arrived(self, number: int, now: float) -> list[Placement]:
        """One more task."""

    def progressed(self, node: int, start: Start, now: float) -> list[Placement]:
        """A pass of a node is over."""


class Separate:
    """So many nodes train, the others serve; each kind in turn over its nodes."""

    def __init__(self, workload: Workload, training_nodes: int) -> None:
        self._tasks = workload.tasks
        self._nodes = {True: cycle(range(training_nodes)), False: cycle(range(training_nodes, NODES))}

    def arrived(self, number: int, now: float) -> list[Placement]:
        """The next node of its kind."""
        return [(number, next(self._nodes[self._tasks[number].trains]))]

    def progressed(self, node: int, start: Start, now: float) -> list[Placement]:
        """Nothing waits."""
        return []


class RoundRobin:
    """NaiveMix: all tasks in turn over all nodes."""

    def __init__(self) -> None:
        self._nodes = cycle(range(NODES))

    def arrived(self, number: int, now: float) -> list[Placement]:
        """The next node."""
        return [(number, next(self._nodes))]

    def progressed(self, node: int, start: Start, now: float) -> list[Placement]:
        """Nothing waits."""
        return []


class LowestUtilisation:
    """Mix-LUF: the node that was busy least so far, known at no cost."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes

    def arrived(self, number: int, now: float) -> list[Placement]:
        """The least busy node."""
        return [(number, min(range(NODES), key=lambda node: self._nodes[node].busy_seconds))]

    def progressed(self, node: int, start: Start, now: float) -> list[Placement]:
        """Nothing waits."""
        return []


@dataclass(frozen=True, slots=True)
class Parts:
    """Of LeMix, each of which may be left out."""

    profile: bool = True
    allocation: bool = True
    idleness: bool = True
    consistency: bool = True
    deferral: bool = True
    memory: bool = True
    batching: bool = True


def weights(workload: Workload, parts: Parts) -> Weights:
    """No idleness is tolerated beyond the arrival interval; the best consistency counts a tenth of a forward pass.

    Of 21 pairs tried at four points, on seeds that no figure is from, these answered most requests in time.
    """
    machine = workload.machine
    deviation = math.sqrt(machine.mean_work - machine.mean_length**2)
    consistency = 0.1 * machine.model.forward * deviation * math.sqrt(2.0 * math.pi)
    # With a tolerance that no idleness reaches all nodes have the same profit: what is left is the response.
    tolerance = 0.0 if parts.idleness else 1e9
    return Weights(tolerance, consistency=consistency if parts.consistency else 0.0)


def _unprofiled(time: StageTime) -> StageTime:
    """A guess: half of what it is, and a backward pass like a forward one."""
    return StageTime(time.forward / 2.0, time.forward / 2.0)


class LeMix:
    """The policies of `rowen.scheduler.lemix`, and the state that goes through them."""

    def __init__(self, workload: Workload, parts: Parts) -> None:
        time = workload.time if parts.profile else _unprofiled(workload.time)
        self._workload, self._parts = workload, parts
        self._weights = weights(workload, parts)
        self._traces = [empty(str(node), time, STAGES) for node in range(NODES)]
        self._turn = 0
        self._paths: dict[int, Path] = {}
        self._waiting: deque[int] = deque()
        self._requests = Lengths()
        self.planning_seconds = 0.0
        """CPU time in execution planning and the choice of a node, so far."""
        self.policy_seconds = 0.0
        """The same with deferral and calibration."""

    def arrived(self, number: int, now: float) -> list[Placement]:
        """A request goes to its node at once, a training task as soon as it may."""
        begun = thread_time()
        task = self._workload.tasks[number]
        if task.trains:
            self._waiting.append(number)
            placed = self._trainings(now) if len(self._waiting) == 1 else []
        else:
            self._requests = self._requests.after(task.length)
            placed = [self._place(number, self._allocation(task, now), now)]
        self.policy_seconds += thread_time() - begun
        return placed

    def progressed(self, node: int, start: Start, now: float) -> list[Placement]:
        """Calibrates; training that waits is looked at when a last stage, which Eq. 4 is about, has done a pass."""
        begun = thread_time()
        path = self._paths[start.job.tasks[-1]]
        planned = (path.backward if start.backward else path.forward)[start.stage]
        self._traces[node] = self._traces[node].calibrated(start.stage, path, planned, now)
        placed = self._trainings(now) if start.stage == STAGES - 1 else []
        self.policy_seconds += thread_time() - begun
        return placed

    def _trainings(self, now: float) -> list[Placement]:
        placed: list[Placement] = []
        while self._waiting:
            task, request = self._workload.tasks[self._waiting[0]], self._next_request(now)
            slo = self._workload.machine.slo_seconds
            # Where the request is late anyway, nothing has to be planned to know it.
            if request and quickest(request, self._traces, now)[0] > slo:
                break
            allocation = self._allocation(task, now)
            if deferral(task, allocation, request, self._traces, now, slo).deferred:
                break
            placed.append(self._place(self._waiting.popleft(), allocation, now))
        return placed

    def _allocation(self, task: Task, now: float) -> Allocation:
        begun = thread_time()
        traces = self._traces if self._parts.allocation else [self._traces[self._turn]]
        allocation = allocate(task, traces, now, self._weights)
        self.planning_seconds += thread_time() - begun
        return allocation

    def _next_request(self, now: float) -> Task | None:
        # Requests go to their nodes at once, so that none is queued behind: the next is one of mean length, any moment.
        if not self._parts.deferral or not self._requests.count:
            return None
        return Task(now, round(self._requests.mean))

    def _place(self, number: int, allocation: Allocation, now: float) -> Placement:
        chosen = allocation.chosen
        node = int(chosen.node)
        self._traces[node] = self._traces[node].after(self._workload.tasks[number], chosen.plan.path, now)
        self._paths[number] = chosen.plan.path
        self._turn = (self._turn + 1) % NODES
        return number, node


def without(part: str) -> Parts:
    """All parts but one."""
    return replace(Parts(), **{part: False})

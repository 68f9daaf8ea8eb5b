"""One arm under one workload, event by event."""

import heapq
from dataclasses import dataclass, fields, replace

from mixing.dispatch import Dispatcher, LeMix, LowestUtilisation, Parts, Placement, RoundRobin, Separate, without
from mixing.node import Look, Node, Start
from mixing.setup import NODES, STAGES
from mixing.workload import Workload

SEPARATE = {"separate_25": 1, "separate_50": 2, "separate_75": 3}
"""Part of the nodes, in percent, that train."""
ABLATIONS = {f"without_{part.name}": without(part.name) for part in fields(Parts)}
BASELINES = (*SEPARATE, "round_robin", "lowest_utilisation")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an arm did."""

    throughput: float
    """Tasks per second, from the first arrival to the last end."""
    attainment: float
    """Part of the requests whose forward pass ended within the SLO; 1 without any request."""
    utilisation: float
    """Of all stages, over the same time."""
    planning_ms: float
    """Mean CPU time in LeMix's planning and choice of a node, per task; 0 for the others."""
    policy_ms: float
    """The same with deferral and calibration."""


class Simulation:
    """Events are arrivals, ends of passes, and looks at a stage that waits."""

    def __init__(self, workload: Workload, arm: str) -> None:
        parts = Parts() if arm == "lemix" else ABLATIONS.get(arm)
        batches = workload.machine.batches
        if parts and not parts.batching:
            batches = replace(batches, size=1)
        memory_aware = parts is not None and parts.memory
        self._workload = workload
        self._nodes = [Node(workload, batches, memory_aware=memory_aware) for _ in range(NODES)]
        self._dispatcher = self._chosen(arm, parts)
        self._events: list[tuple[float, int, int, int | Start | None]] = []
        self._number = 0
        self._looks: list[list[float | None]] = [[None] * STAGES for _ in range(NODES)]
        self._ends: dict[int, float] = {}
        self._last = 0.0

    def _chosen(self, arm: str, parts: Parts | None) -> Dispatcher:
        if parts:
            return LeMix(self._workload, parts)
        if arm == "round_robin":
            return RoundRobin()
        if arm == "lowest_utilisation":
            return LowestUtilisation(self._nodes)
        return Separate(self._workload, SEPARATE[arm])

    def run(self) -> Outcome:
        """To the end of all tasks."""
        for number, task in enumerate(self._workload.tasks):
            self._event(task.arrival, -1, number)
        while self._events:
            now, _, node, what = heapq.heappop(self._events)
            if isinstance(what, int):
                self._put(self._dispatcher.arrived(what, now), now)
            elif isinstance(what, Start):
                self._ended(node, what, now)
            else:
                self._go_on(node, now)
        return self._outcome()

    def _event(self, time: float, node: int, what: int | Start | None) -> None:
        self._number += 1
        heapq.heappush(self._events, (time, self._number, node, what))

    def _put(self, placements: list[Placement], now: float) -> None:
        for number, node in placements:
            self._nodes[node].put(number, now)
            self._go_on(node, now)

    def _ended(self, node: int, start: Start, now: float) -> None:
        finished = self._nodes[node].end(start)
        if not start.backward and start.stage == STAGES - 1:
            self._ends.update(dict.fromkeys(start.job.tasks, now))
        if finished:
            self._last = now
        self._put(self._dispatcher.progressed(node, start, now), now)
        self._go_on(node, now)

    def _go_on(self, node: int, now: float) -> None:
        for at in range(STAGES):
            found = self._nodes[node].begin(at, now)
            if isinstance(found, Start):
                self._event(now + found.seconds, node, found)
            elif isinstance(found, Look) and self._looks[node][at] != found.time:
                self._looks[node][at] = found.time
                self._event(found.time, node, None)

    def _outcome(self) -> Outcome:
        tasks = self._workload.tasks
        if len(self._ends) != len(tasks):
            raise RuntimeError(f"{len(self._ends)} of {len(tasks)} tasks ended")
        slo = self._workload.machine.slo_seconds
        responses = [self._ends[number] - task.arrival for number, task in enumerate(tasks) if not task.trains]
        met = sum(response <= slo for response in responses)
        busy = sum(node.busy_seconds for node in self._nodes)
        lemix = self._dispatcher if isinstance(self._dispatcher, LeMix) else None
        return Outcome(
            len(tasks) / self._last,
            met / len(responses) if responses else 1.0,
            busy / (self._last * NODES * STAGES),
            1000.0 * lemix.planning_seconds / len(tasks) if lemix else 0.0,
            1000.0 * lemix.policy_seconds / len(tasks) if lemix else 0.0,
        )

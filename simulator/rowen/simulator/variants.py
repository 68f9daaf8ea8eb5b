"""Ways to schedule that are compared: Rowen's own, and what it is without one of its parts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf

from rowen.crds.harvest.busy import NEVER_BUSY
from rowen.scheduler.decision import Action, Decision, Outcome, decide
from rowen.scheduler.device import DeviceView
from rowen.scheduler.history import History
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobView, NodeView, Placement, Snapshot


class Name(StrEnum):
    """How jobs are scheduled."""

    ROWEN = "rowen"
    FIRST_FIT = "first-fit"
    """The first devices by name that are empty, else the first with a free slot, where the job's own memory has room;
    nobody is withdrawn."""
    IDLE_ONLY = "idle-only"
    """By idle time alone: how much memory the pools lend, and when, it does not see."""
    NO_ALIGNMENT = "no-alignment"
    """A set of devices counts as idle as its least idle one, however their busy times lie."""
    NO_MONITOR = "no-monitor"
    """Nobody is withdrawn for falling short, nor since the node has become busier."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to schedule."""

    decide: Callable[[Snapshot, History, float, Policy], Decision]
    policy: Policy
    seen: Callable[[Snapshot], Snapshot]
    """What of the snapshot it looks at."""


def variant(name: Name, policy: Policy) -> Variant:
    """The way of that name, with the policy's numbers."""
    if name is Name.FIRST_FIT:
        return Variant(first_fit, policy, _all)
    if name is Name.IDLE_ONLY:
        return Variant(decide, policy, _without_memory)
    if name is Name.NO_ALIGNMENT:
        return Variant(decide, policy.model_copy(update={"alignment_threshold": 0.0}), _without_bitmaps)
    if name is Name.NO_MONITOR:
        return Variant(decide, policy.model_copy(update={"shortfall_seconds": inf, "drift_seconds": inf}), _all)
    return Variant(decide, policy, _all)


def _all(snapshot: Snapshot) -> Snapshot:
    return snapshot


def _without_memory(snapshot: Snapshot) -> Snapshot:
    return _with_devices(snapshot, lambda device: replace(device, available=()))


def _without_bitmaps(snapshot: Snapshot) -> Snapshot:
    return _with_devices(snapshot, lambda device: replace(device, busy=NEVER_BUSY))


def _with_devices(snapshot: Snapshot, change: Callable[[DeviceView], DeviceView]) -> Snapshot:
    nodes = {
        name: replace(node, devices=tuple(change(device) for device in node.devices))
        for name, node in snapshot.nodes.items()
    }
    return replace(snapshot, nodes=nodes)


def first_fit(snapshot: Snapshot, history: History, now: float, policy: Policy) -> Decision:
    """Each waiting job, in the queue's order, on the first devices that take it."""
    taken: dict[tuple[str, str], int] = {}
    used: dict[tuple[str, str], int] = {}
    for pod in snapshot.pods:
        for id_ in pod.devices:
            taken[pod.node, id_] = taken.get((pod.node, id_), 0) + 1
            used[pod.node, id_] = used.get((pod.node, id_), 0) + pod.memory
    outcomes = []
    refused: set[tuple[int, int]] = set()
    for job in sorted(snapshot.jobs.values(), key=lambda job: job.order):
        if job.placement is not None or (job.devices, job.memory) in refused:
            continue
        found = _first(job, snapshot.nodes, taken, used)
        if found is None:
            refused.add((job.devices, job.memory))
        else:
            node, ids = found
            for id_ in ids:
                taken[node, id_] = taken.get((node, id_), 0) + 1
                used[node, id_] = used.get((node, id_), 0) + job.memory
            placement = Placement(f"{job.uid}@{now:g}", node, ids, 0.0, now, now, policy.lease_seconds)
            outcomes.append(Outcome(job, Action.PLACE, f"placed on {node}", placement))
    return Decision(tuple(outcomes), history.backoffs)


def _first(
    job: JobView,
    nodes: Mapping[str, NodeView],
    taken: Mapping[tuple[str, str], int],
    used: Mapping[tuple[str, str], int],
) -> tuple[str, tuple[str, ...]] | None:
    """Empty devices go before those that have a tenant, on whichever node."""
    for empty in (True, False):
        for name, node in nodes.items():
            each = 1 if empty else node.slots // len(node.devices)
            free = [
                device.id
                for device in node.devices
                if taken.get(device.key, 0) < each and used.get(device.key, 0) + job.memory <= device.room
            ]
            if len(free) >= job.devices:
                return name, tuple(free[: job.devices])
    return None

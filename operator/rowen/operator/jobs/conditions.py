"""The conditions of an OfflineJob that the operator owns, and the one word derived from all of them."""

import signal
from collections.abc import Iterable, Sequence

from rowen.crds.common import Condition, find_condition, is_true, set_condition
from rowen.crds.harvest.node_harvest import DeviceHarvest, OfflineTenant
from rowen.kube.timestamps import rfc3339
from rowen.operator.jobs.snapshot import JobSnapshot
from rowen.operator.pods.view import PodView
from rowen.operator.say import Say
from rowen.operator.world.reports import tenancies

OWNED = ("Suspended", "Running", "Preempted", "Finished")
_KILLED = 128 + signal.SIGKILL
_NOT_A_STATE = ("NotPlaced", "Finished", "Suspended")


def conditions(snapshot: JobSnapshot, now: float, says: dict[str, Say]) -> list[Condition]:
    """The operator's conditions in a fixed order."""
    return [
        set_condition(
            snapshot.status.conditions,
            type_,
            says[type_].status,
            says[type_].reason,
            says[type_].message[:32768],
            generation=snapshot.generation,
            now=rfc3339(now, "seconds"),
        )
        for type_ in OWNED
    ]


def running_of(pod: PodView) -> Say:
    """Running, from the pod of the current assignment."""
    if pod.runs:
        return Say("True", "Running", f"attempt {pod.attempt} runs as pod {pod.name} on node {pod.node}")
    if pod.problem:
        return Say("False", pod.problem.reason, pod.problem.message)
    return Say("False", "Starting", f"pod {pod.name} is starting")


def describe_end(pod: PodView) -> str:
    """How an attempt ended, in a sentence for a person."""
    if pod.result:
        return f"attempt {pod.attempt}: {pod.result.reason}: {pod.result.message}"
    cause = pod.end_reason or "Error"
    code = "" if pod.exit_code is None else f" (exit code {pod.exit_code})"
    detail = f": {pod.end_message.strip()[-1024:]}" if pod.end_message else ""
    # The kubelet does not know who did it; the node's agent tells in an event that it has evicted a pod.
    killed = pod.exit_code == _KILLED and cause == "Error"
    hint = f"; it was killed: `kubectl describe pod {pod.name}` may say by whom, in its events" if killed else ""
    return f"attempt {pod.attempt}: {cause}{code}{detail}{hint}"


def failure_reason(pod: PodView | None) -> str:
    """The worker's own reason, or the kubelet's, or Failed."""
    if pod is None:
        return "Failed"
    if pod.result and pod.result.reason != "Completed":
        return pod.result.reason
    return "OOMKilled" if pod.end_reason == "OOMKilled" else "Failed"


def waiting(last: PodView, failures: int) -> Say:
    """Running, while the next attempt waits for its back-off."""
    return Say("False", "BackOff", f"{describe_end(last)}; attempts failed so far: {failures}")


def preempted(snapshot: JobSnapshot, pod: PodView | None, now: float) -> Say:
    """Preempted, from the report of the pod's node."""
    if pod is None or not pod.runs:
        return Say("False", "NotRunning")
    report = snapshot.reports.get(pod.node or "")
    places = tenancies(report, snapshot.namespace, pod.name) if report and report.fresh(now) else []
    if not places:
        return Say("Unknown", "NoReport", f"no fresh report of node {pod.node} names pod {pod.name}")
    if not any(tenant.attached for _, tenant in places):
        rides = all(tenant.mode == "CoServe" for _, tenant in places)
        where = "joined with the engine" if rides else "behind the gate"
        return Say("Unknown", "NotAttached", f"no process of pod {pod.name} is {where} yet")
    if all(tenant.mode == "CoServe" for _, tenant in places):
        return Say("False", "Riding", f"the engine computes it, with pod {pod.name}")
    count = max(tenant.preemptions for _, tenant in places)
    times = "once" if count == 1 else f"{count} times"
    message = f"stopped {times} so far by pod {pod.name}'s node{_shared(places)}"
    if any(not device.gate_open for device, _ in places):
        return Say("True", "GateClosed", message)
    return Say("False", "GateOpen", message)


def _shared(places: Sequence[tuple[DeviceHarvest, OfflineTenant]]) -> str:
    """What all offline work of the device might use beside requests. A job on several devices has no share of them."""
    spatial = places[0][0].spatial if len(places) == 1 else None
    if spatial is None:
        return ""
    share, time = f"{spatial.share:.0%}", f"{spatial.open_fraction:.0%}"
    return f"; of late offline work might use {share} of the device beside requests, {time} of the time"


def state(conditions: Iterable[Condition]) -> str:
    """One word for people, derived from the conditions of the operator and the scheduler."""
    have = list(conditions)
    finished = find_condition(have, "Finished")
    if finished and finished.status == "True":
        return "Completed" if finished.reason == "Completed" else "Failed"
    if is_true(have, "Suspended"):
        return "Suspended"
    if is_true(have, "Running"):
        return "Preempted" if is_true(have, "Preempted") else "Running"
    if is_true(have, "Placed"):
        running = find_condition(have, "Running")
        return running.reason if running and running.reason not in _NOT_A_STATE else "Starting"
    return "Pending"


def merged(current: Iterable[Condition], own: Sequence[Condition]) -> list[Condition]:
    """The conditions of everybody else, and the operator's new ones."""
    names = {condition.type for condition in own}
    return [condition for condition in current if condition.type not in names] + list(own)

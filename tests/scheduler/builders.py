"""Short ways to build a world for the policies."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rowen.crds.harvest.busy import busy_cells, grid
from rowen.crds.job.offline_job_status import OfflineJobStatus, StartFailure
from rowen.scheduler.decision import Decision, Outcome, decide
from rowen.scheduler.device import DeviceView, TenantView
from rowen.scheduler.history import History
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobView, NodeView, Placement, PodView, Snapshot

GIB = 2**30
NOW = 1_000_000.0
POLICY = Policy()
LEASE = POLICY.lease_seconds
OVERDUE = LEASE + POLICY.lease_grace_seconds
"""Seconds of silence within which no node is lost."""


def device(
    node: str, id_: str = "cpu0", *, idle: float = 0.8, busy: Iterable[tuple[float, float]] = (), **fields: Any
) -> DeviceView:
    """An open device with a pool of 8 GiB, 2 GiB of it held by the online pod.

    `busy`: begins and ends in the minute before `NOW`, Unix seconds.
    """
    fields = {"memory": 8 * GIB, "idle": idle, "online_memory": 2 * GIB, "service": "ns/chat", **fields}
    return DeviceView(node, id_, "cpu", busy=busy_cells(busy, grid(NOW, 60.0)), **fields)


def node(name: str, *devices: DeviceView, **fields: Any) -> NodeView:
    """A node that has just reported, with two slots per device. Its clock is right unless `heard` is given."""
    devices = devices or (device(name),)
    fields = {"slots": 2 * len(devices), "reported": NOW, **fields}
    fields = {"heard": fields["reported"], **fields}
    return NodeView(name, devices=devices, **{"told": fields["heard"], **fields})


def job(name: str, **fields: Any) -> JobView:
    """A best-effort job of 1 GiB on one device."""
    return JobView(
        **{"uid": f"uid-{name}", "namespace": "ns", "name": name, "workload": "class", "memory": GIB, **fields}
    )


def placed(view: JobView, node_name: str, *devices: str, at: float = NOW - 600.0, **fields: Any) -> JobView:
    """The job with an assignment."""
    placement = Placement(f"id-{view.name}", node_name, devices or ("cpu0",), 0.8, at, NOW, LEASE, 1)
    return replace(view, placement=replace(placement, **fields), status=OfflineJobStatus())


def not_started(view: JobView, assignment: str | None = None, cause: Any = "Job") -> JobView:
    """The job whose pod could not be started, as the operator tells."""
    failure = StartFailure(
        assignment=assignment or f"id-{view.name}", reason="ImagePullBackOff", message="no such image", cause=cause
    )
    return replace(view, status=view.status.model_copy(update={"start_failure": failure}))


def pod(view: JobView, node_name: str, *devices: str, assignment: str | None = None) -> PodView:
    """The pod of a job's assignment."""
    return PodView(
        view.namespace, f"{view.name}-1", node_name, view.devices, view.memory, view.uid,
        assignment or f"id-{view.name}", devices or ("cpu0",), running=True,
    )  # fmt: skip


def tenant(view: JobView, tokens: int = 0, granted: float = 0.0) -> TenantView:
    """The job's pod as its node reports it."""
    return TenantView(view.namespace, f"{view.name}-1", tokens, granted)


def running(*parts: NodeView | JobView | PodView) -> list[NodeView | JobView | PodView]:
    """The parts, with a running pod of each placed job that has none among them; its node reports every pod."""
    pods = [part for part in parts if isinstance(part, PodView)]
    told = {view.job for view in pods}
    pods += [
        pod(part, part.placement.node, *part.placement.devices)
        for part in parts
        if isinstance(part, JobView) and part.placement is not None and part.uid not in told
    ]
    others = [part for part in parts if not isinstance(part, PodView)]
    return [*(_reporting(part, pods) if isinstance(part, NodeView) else part for part in others), *pods]


def _reporting(view: NodeView, pods: Iterable[PodView]) -> NodeView:
    def reporting(at: DeviceView) -> DeviceView:
        known = {held.pod for held in at.tenants}
        here = [each for each in pods if each.node == view.name and at.id in each.devices and each.name not in known]
        return replace(at, tenants=(*at.tenants, *(TenantView(each.namespace, each.name) for each in here)))

    return replace(view, devices=tuple(map(reporting, view.devices)))


def world(*parts: NodeView | JobView | PodView) -> Snapshot:
    """A snapshot of the parts."""
    return Snapshot(
        {part.name: part for part in parts if isinstance(part, NodeView)},
        {part.uid: part for part in parts if isinstance(part, JobView)},
        tuple(part for part in parts if isinstance(part, PodView)),
    )


def run(*parts: NodeView | JobView | PodView, history: History | None = None, now: float = NOW) -> Decision:
    """One pass over the parts."""
    return decide(world(*parts), history or History(), now, POLICY)


def outcome(decision: Decision, name: str) -> Outcome:
    """What happens to the job of that name."""
    found = decision.outcome(f"uid-{name}")
    assert found is not None, f"nothing was decided about {name}"
    return found

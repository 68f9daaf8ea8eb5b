"""Which devices a job's pod holds, as far as anyone knows."""

from rowen.scheduler.snapshot import JobView, NodeView, PodView, Snapshot, Tenancy

_HANGS_SECONDS = 60.0
"""How long after its grace period a pod that is being deleted is waited for."""


def devices_of(node: NodeView, pod: PodView) -> tuple[str, ...]:
    """Devices on which the node reports the pod; where it does not yet, those it was meant for."""
    seen = tuple(device.id for device, _ in tenancies(node, pod))
    return seen or tuple(id_ for id_ in pod.devices if node.device(id_) is not None)


def tenancies(node: NodeView, pod: PodView) -> tuple[Tenancy, ...]:
    """The pod's entries in the node's report, one per device; each counts the tokens of the whole pod."""
    return node.tenancies.get((pod.namespace, pod.name), ())


def attached(node: NodeView, pod: PodView) -> bool:
    """Whether a process of the pod is behind a gate: one whose image is still pulled takes nothing."""
    return any(tenant.attached for _, tenant in tenancies(node, pod))


def hangs(pod: PodView, now: float) -> bool:
    """Whether the pod hangs in its deletion: it should be gone by now."""
    return pod.gone_by is not None and now > pod.gone_by + _HANGS_SECONDS


def pod_of(job: JobView, snapshot: Snapshot) -> PodView | None:
    """The pod of the job's present assignment, or None."""
    if job.placement is None:
        return None
    pods = snapshot.pods_by_job.get(job.uid, ())
    return next((pod for pod in pods if pod.assignment == job.placement.id and pod.node == job.placement.node), None)

"""Which devices a job's pod holds, as far as anyone knows."""

from rowen.scheduler.snapshot import DeviceView, JobView, NodeView, PodView, Snapshot, TenantView


def pods_by_job(snapshot: Snapshot) -> dict[str, list[PodView]]:
    """The pods that hold harvest slots, by the UID of their job."""
    found: dict[str, list[PodView]] = {}
    for pod in snapshot.pods:
        if pod.job is not None:
            found.setdefault(pod.job, []).append(pod)
    return found


def devices_of(node: NodeView, pod: PodView) -> tuple[str, ...]:
    """Devices on which the node reports the pod; where it does not yet, those it was meant for."""
    seen = tuple(device.id for device, _ in tenancies(node, pod))
    return seen or tuple(id_ for id_ in pod.devices if node.device(id_) is not None)


def tenancies(node: NodeView, pod: PodView) -> list[tuple[DeviceView, TenantView]]:
    """The pod's entries in the node's report, one per device; each counts the tokens of the whole pod."""
    return [
        (device, tenant)
        for device in node.devices
        for tenant in device.tenants
        if tenant.pod == pod.name and tenant.namespace == pod.namespace
    ]


def pod_of(job: JobView, pods: list[PodView]) -> PodView | None:
    """The pod of the job's present assignment, or None."""
    if job.placement is None:
        return None
    return next((pod for pod in pods if pod.assignment == job.placement.id and pod.node == job.placement.node), None)

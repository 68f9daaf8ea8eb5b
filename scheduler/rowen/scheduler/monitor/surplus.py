"""Jobs that are too many on devices that take one at a time."""

from collections.abc import Iterable

from rowen.scheduler.device import DeviceKey
from rowen.scheduler.monitor.lease import Loss, Reason
from rowen.scheduler.snapshot import JobKey, JobView, Placement, Snapshot


def surplus(snapshot: Snapshot, held: Iterable[tuple[JobView, Placement]]) -> dict[JobKey, Loss]:
    """Of the jobs that share a restrained device all but the first in the queue's order go."""
    taken: dict[DeviceKey, JobView] = {}
    found: dict[JobKey, Loss] = {}
    for job, placement in sorted(held, key=lambda pair: pair[0].order):
        node = snapshot.nodes.get(placement.node)
        views = filter(None, map(node.device, placement.devices)) if node is not None else ()
        restrained = {view.key: view.restraint for view in views if view.restraint}
        first = next((key for key in restrained if key in taken), None)
        if first is None:
            taken |= dict.fromkeys(restrained, job)
        else:
            place = "/".join(first)
            message = f"{place}: {restrained[first]}: {taken[first].label} stays"
            found[job.uid] = Loss(Reason.HARVEST_REDUCED, message)
    return found

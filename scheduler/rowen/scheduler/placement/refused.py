"""Why a job has no place, in the words of its status. Pure."""

from rowen.scheduler.model.profile import HIGHEST_SLA
from rowen.scheduler.placement.memory_words import above_all_devices, never_fits
from rowen.scheduler.placement.search.places import Places
from rowen.scheduler.placement.search.request import Choice
from rowen.scheduler.snapshot import JobView


def refused(job: JobView, choice: Choice, places: Places) -> str:
    """What can never be comes before what is in the way now."""
    fleet = places.fleet
    largest, widest = fleet.largest, fleet.widest
    if largest is None or widest is None:
        return "no node reports a harvested device"
    if job.devices > len(widest.by_id):
        most = f"the node with most, {widest.name}, has {len(widest.by_id)}"
        return f"it can never fit: spec.devices is {job.devices}, {most}"
    if job.sla is not None and job.sla > HIGHEST_SLA:
        most = f"{HIGHEST_SLA:.2f} is the most that can be promised, since a promise keeps a margin"
        return f"it can never be promised: spec.sla.throughputFraction is {job.sla:.3g}, {most}"
    best = choice.candidates[0]
    # In an engine it needs no memory of a device.
    never = never_fits(job, largest, fleet.roomiest, fleet.unknown)
    told = never if never and not places.has_engine(job) else f"no candidate holds: {best.place}: {best.refusal}"
    return told + above_all_devices(job, largest)

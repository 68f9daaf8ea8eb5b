"""What is told of memory: who takes a device's, and whether a job can ever have what it asks for. Pure.

What a service may have counts in full, in use or not: a job's own memory is not taken back for it.
"""

from rowen.scheduler.device import DeviceView
from rowen.scheduler.snapshot import JobView

_SHORT = (
    (0.05, "; memory is short: the pool lends it next to nothing now, so it may stand still until others need less"),
    (0.5, "; memory is short: with what the pool lends it now it makes less than half of its throughput"),
)
"""Below which factor what is told. In words and not in figures: each report would change a status."""
_STEADY = 0.05
"""So far a factor has to rise until the words of a lower one go."""


def memory_refusal(job: JobView, device: DeviceView, left: int) -> str:
    """Why the job's own memory has no room on the device. `left`: bytes that nobody may claim; below 0 for none."""
    told = (
        f"memory 0: needs {gib(job.memory)}, {gib(left)} of {gib(device.memory)} left on {device.id}: "
        f"{_service(device)}, offline jobs have {gib(device.room - left)}"
    )
    if job.memory > device.memory:
        return f"{told}; the device is too small"
    short = device.online_memory is not None and job.memory > device.room
    return f"{told}; the service leaves too little, whichever jobs end" if short else told


def never_fits(job: JobView, largest: DeviceView, roomiest: DeviceView | None, unknown: DeviceView | None) -> str:
    """Why the job's own memory fits on no device, whichever jobs end; empty where it may fit.

    `largest` has the most memory of all devices, `roomiest` the most beside its service of those where that is known,
    `unknown` the most memory of the others.
    """
    if job.memory > largest.memory:
        return f"it can never fit: spec.memory is {gib(job.memory)}, {_largest(largest)}"
    if roomiest is None or job.memory <= roomiest.room:
        return ""
    told = (
        f"room for it, whichever jobs end: spec.memory is {gib(job.memory)}, "
        f"the most that a service leaves is {gib(roomiest.room)} of {gib(roomiest.memory)} on "
        f"{_place(roomiest)}, where {_service(roomiest)}"
    )
    if unknown is None or job.memory > unknown.memory:
        return f"no device has {told}"
    return f"no device is known to have {told}; {_place(unknown)} has {gib(unknown.memory)}: {_service(unknown)}"


def above_all_devices(job: JobView, largest: DeviceView | None) -> str:
    """That no device has what `memoryLimit` allows; empty where one has, or `never_fits` says more."""
    most = job.memory + job.pool
    if not job.pool or largest is None or not job.memory <= largest.memory < most:
        return ""
    return f"; spec.memoryLimit {gib(most)} is above every device's memory: {_largest(largest)}"


def short_now(factor: float, before: str) -> str:
    """That a job which has its place has little memory of the pool; empty where `factor`, its M by now, is not low.

    `before`: what was told last. Its words stay until the factor is above where they begin by more than it hovers.
    """
    for least, words in _SHORT:
        if factor < least + (_STEADY if words in before else 0.0):
            return words
    return ""


def lending_help(device: DeviceView, want_bytes: int, tenants: int, taken: int) -> str:
    """What the pool lends a job beside so many tenants, itself among them, and what would change that.

    `taken`: bytes that come off what it lends by the report.
    """
    lent = round(sum(max(0, amount - taken) for amount in device.available) / max(1, len(device.available)) / tenants)
    return (
        f"; of the pool of {device.id} it gets {gib(lent)} on average and wants {gib(want_bytes)}: "
        f"less spec.memoryLimit wants less"
    )


def gib(bytes_: int) -> str:
    """Bytes for people; less than none is none."""
    return f"{max(0, bytes_) / 2**30:.2f}Gi"


def _largest(device: DeviceView) -> str:
    return f"the largest device, {_place(device)}, has {gib(device.memory)}"


def _service(device: DeviceView) -> str:
    owner = f"service {device.service}" if device.service else "the online pod"
    known = device.online_memory is not None
    return f"{owner} may take {gib(device.memory - device.room)}" if known else f"what {owner} may take is not known"


def _place(device: DeviceView) -> str:
    return f"{device.node}/{device.id}"

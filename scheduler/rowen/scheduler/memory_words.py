"""What is told of memory: who takes a device's, and whether a job can ever have what it asks for. Pure.

What a service may have counts in full, in use or not: a job's own memory is not taken back for it.
"""

from rowen.scheduler.snapshot import DeviceView, JobView


def memory_refusal(job: JobView, device: DeviceView, left: int) -> str:
    """Why the job's own memory has no room on the device. `left`: bytes that nobody may claim; below 0 for none."""
    told = (
        f"memory 0: needs {gib(job.memory)}, {gib(left)} of {gib(device.memory)} left on {device.id}: "
        f"{_service(device)}, offline jobs have {gib(device.room - left)}"
    )
    if job.memory > device.memory:
        return f"{told}; the device is too small"
    return f"{told}; the service leaves too little, whichever jobs end" if job.memory > device.room else told


def never_fits(job: JobView, largest: DeviceView, roomiest: DeviceView) -> str:
    """Why the job's own memory fits on no device, whichever jobs end; empty where it may fit.

    `largest` has the most memory of all devices, `roomiest` the most beside its service.
    """
    if job.memory > largest.memory:
        return f"it can never fit: spec.memory is {gib(job.memory)}, {_largest(largest)}"
    if job.memory <= roomiest.room:
        return ""
    return (
        f"no device has room for it, whichever jobs end: spec.memory is {gib(job.memory)}, "
        f"the most that a service leaves is {gib(roomiest.room)} of {gib(roomiest.memory)} on "
        f"{_place(roomiest)}, where {_service(roomiest)}"
    )


def above_all_devices(job: JobView, largest: DeviceView | None) -> str:
    """That no device has what `memoryLimit` allows; empty where one has, or `never_fits` says more."""
    most = job.memory + job.pool
    if not job.pool or largest is None or not job.memory <= largest.memory < most:
        return ""
    return f"; spec.memoryLimit {gib(most)} is above every device's memory: {_largest(largest)}"


def gib(bytes_: int) -> str:
    """Bytes for people; less than none is none."""
    return f"{max(0, bytes_) / 2**30:.2f}Gi"


def _largest(device: DeviceView) -> str:
    return f"the largest device, {_place(device)}, has {gib(device.memory)}"


def _service(device: DeviceView) -> str:
    owner = f"service {device.service}" if device.service else "the online pod"
    return f"{owner} may take {gib(device.memory - device.room)}"


def _place(device: DeviceView) -> str:
    return f"{device.node}/{device.id}"

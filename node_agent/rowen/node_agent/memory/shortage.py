"""A device that is too small for what its engine may have of the pool. Pure: no clock, no I/O."""

REASON = "MemoryLimitAboveDevice"
"""Of the event on the engine's pod."""
_MIB = 1 << 20


def shortage(device: str, memory_bytes: int, fixed_bytes: int, pool_bytes: int) -> str | None:
    """For the users of an engine's pod, what its device cannot give it; None: it can give everything.

    `fixed_bytes`, `pool_bytes`: what the pod has for itself, and what it may have of the pool.
    """
    if fixed_bytes + pool_bytes <= memory_bytes:
        return None
    most = max(0, memory_bytes - fixed_bytes)
    return (
        f"memoryLimit, {_mib(fixed_bytes + pool_bytes)}, is above the memory of device {device}, "
        f"{_mib(memory_bytes)}: the engine may have {_mib(pool_bytes)} of its pool and can get {_mib(most)} at most; "
        "lower memoryLimit, or give the device more memory"
    )


def _mib(size: int) -> str:
    return f"{size / _MIB:.0f} MiB"

"""A device that is too small for what its engine may have of the pool. Pure: no clock, no I/O."""

from rowen.crds.base import quantity_text

REASON = "MemoryLimitAboveDevice"
"""Of the event on the engine's pod."""


def shortage(device: str, memory_bytes: int, fixed_bytes: int, pool_bytes: int) -> str | None:
    """For the users of an engine's pod, what its device cannot give it; None: it can give everything.

    `fixed_bytes`, `pool_bytes`: what the pod has for itself, and what it may have of the pool.
    """
    if fixed_bytes + pool_bytes <= memory_bytes:
        return None
    limit, memory = quantity_text(fixed_bytes + pool_bytes), quantity_text(memory_bytes)
    part, most = quantity_text(pool_bytes), quantity_text(max(0, memory_bytes - fixed_bytes))
    return (
        f"memoryLimit, {limit}, is above the memory of device {device}, {memory}: "
        f"the engine may have {part} of its pool and can get {most} at most; "
        "lower memoryLimit, or give the device more memory"
    )

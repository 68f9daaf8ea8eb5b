"""Pools of memory for the demo's tests."""

from rowen.crds.harvest.node_harvest import PoolOwners
from rowen.demo.verdict.memory import MIB, PoolReading, Reclaimed


def owners(*, used: int = 0, ahead: int = 0, offline: int = 0, free: int = 0) -> PoolOwners:
    """In MiB."""
    return PoolOwners(
        fixed_bytes=4096 * MIB,
        online_used_bytes=used * MIB,
        online_ahead_bytes=ahead * MIB,
        offline_bytes=offline * MIB,
        free_bytes=free * MIB,
    )


def reading(at: float, *, reclaims: int = 0, **parts: int) -> PoolReading:
    """Of a device where each reclaim took a MiB."""
    return PoolReading(at, owners(**parts), Reclaimed(reclaims, reclaims * MIB))

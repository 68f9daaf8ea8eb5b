"""Whose a device's memory is, out of the state of its pool. Pure: no clock, no I/O."""

from rowen.crds.harvest.node_harvest import PoolOwners
from rowen.node_agent.memory.pool_status import Kind, PoolStatus
from rowen.node_agent.memory.trace import MemorySample


def owners(pool: PoolStatus, memory_bytes: int) -> PoolOwners:
    """The five parts of a device's memory; what is less than a handle at its end is nobody's.

    What is neither free nor an engine's counts as offline work's. What an engine has that has not found this agent yet
    counts as in use.
    """
    engines = [member for member in pool.members if member.kind is Kind.ONLINE]
    fixed = min(pool.fixed, pool.total)
    online = min(sum(member.owned for member in engines) + pool.engines_absent, pool.total - fixed)
    used = min(sum(min(member.used, member.owned) for member in engines) + pool.engines_absent, online)
    free = min(pool.free, pool.total - fixed - online)
    rest = memory_bytes - pool.total * pool.handle_bytes
    return PoolOwners(
        fixed_bytes=fixed * pool.handle_bytes,
        online_used_bytes=used * pool.handle_bytes,
        online_ahead_bytes=(online - used) * pool.handle_bytes,
        offline_bytes=(pool.total - fixed - online - free) * pool.handle_bytes,
        free_bytes=free * pool.handle_bytes + rest,
    )


def memory_sample(owned: PoolOwners, now: float) -> MemorySample:
    """What the window keeps of it. `now`: seconds, monotonic clock."""
    return MemorySample(now, owned.offline_bytes + owned.free_bytes)

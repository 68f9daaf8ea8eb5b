"""Whose the memory of a device is, in numbers."""

from memory.policies.statuses import BYTES, member, pool

from rowen.crds.harvest.node_harvest import PoolOwners
from rowen.node_agent.memory.owners import memory_sample, owners
from rowen.node_agent.memory.pool_status import Kind, PoolStatus
from rowen.node_agent.memory.trace import MemorySample


def handles(status: PoolStatus, memory_bytes: int | None = None) -> tuple[float, ...]:
    """Fixed, in use and ahead of an engine, offline, free: in handles."""
    owned = owners(status, status.total * BYTES if memory_bytes is None else memory_bytes)
    amounts = (owned.fixed_bytes, owned.online_used_bytes, owned.online_ahead_bytes, owned.offline_bytes)
    return tuple(amount / BYTES for amount in (*amounts, owned.free_bytes))


def test_each_part() -> None:
    engines = member(1, Kind.ONLINE, owned=20, used=12), member(2, Kind.ONLINE, owned=5, used=9)
    status = pool(*engines, member(3, owned=30, used=30), fixed=10, free=31)
    assert handles(status) == (10, 17, 8, 34, 31)


def test_an_engine_that_has_not_come_yet_uses_what_it_has() -> None:
    assert handles(pool(member(1, Kind.ONLINE, owned=20, used=12), free=50, engines_absent=7)) == (0, 19, 8, 23, 50)


def test_no_part_is_more_than_the_ones_before_leave() -> None:
    assert handles(pool(fixed=130, free=20)) == (100, 0, 0, 0, 0)
    assert handles(pool(member(1, Kind.ONLINE, owned=80, used=80), fixed=40, free=20)) == (40, 60, 0, 0, 0)
    assert handles(pool(member(1, Kind.ONLINE, owned=50, used=10), fixed=40, free=20)) == (40, 10, 40, 0, 10)
    assert handles(pool(member(1, Kind.ONLINE, owned=5), engines_absent=200, free=0)) == (0, 100, 0, 0, 0)


def test_what_is_less_than_a_handle_is_free() -> None:
    assert handles(pool(free=60), 100 * BYTES + BYTES // 2) == (0, 0, 0, 40, 60.5)


def test_a_sample_of_it() -> None:
    owned = PoolOwners(
        fixed_bytes=1, online_used_bytes=20, online_ahead_bytes=300, offline_bytes=4000, free_bytes=50000
    )
    sample = memory_sample(owned, 9.5)
    expected = MemorySample(9.5, 54000)
    assert sample == expected
    assert sample.available == 54000

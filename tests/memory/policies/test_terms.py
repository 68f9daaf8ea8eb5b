"""On what terms processes have memory: for any pool, pods and needs."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory.policies.statuses import BYTES, member, pool

from rowen.crds.service.online_service import HarvestMemory
from rowen.node_agent.memory.owners import memory_sample, owners
from rowen.node_agent.memory.pool_status import Kind
from rowen.node_agent.memory.terms import FIRST_PART, MemorySnapshot, PodTerms, decide, split

SETTINGS = HarvestMemory()


def pod(handles, uid="a", settings=SETTINGS):
    return PodTerms(uid, handles * BYTES, settings)


def terms(status, pods, *, fixed=0, states=None, now=0.0):
    return decide(MemorySnapshot(now, status, fixed * BYTES, pods, states or {}))


handles = st.integers(0, 300)


@st.composite
def snapshots(draw):
    numbers = range(draw(st.integers(0, 6)))
    members = [
        member(
            number,
            draw(st.sampled_from(Kind)),
            target=draw(handles),
            used=draw(handles),
            wanted=draw(handles),
            owned=draw(handles),
            capacity=draw(st.integers(1, 300)),
        )
        for number in numbers
    ]
    total = draw(st.integers(1, 200))
    free = draw(st.integers(0, total))
    absent = draw(st.integers(0, total))
    status = pool(*members, total=total, free=free, fixed=draw(st.integers(0, total)), engines_absent=absent)
    uids = {number: draw(st.sampled_from("abc")) for number in numbers}
    most = {uid: draw(handles) for uid in "abc"}
    known = {number for number in numbers if draw(st.booleans())}
    pods = {number: pod(most[uids[number]], uids[number]) for number in known}
    return MemorySnapshot(0.0, status, draw(st.integers(0, 300 * BYTES)), pods, {})


@given(snapshots())
def test_no_pod_gets_more_than_it_may_have_and_the_native_side_takes_every_value(snapshot):
    found = decide(snapshot)
    assert found.fixed * BYTES >= min(snapshot.fixed_bytes, snapshot.pool.total * BYTES)
    assert found.fixed <= snapshot.pool.total
    assert {*found.limits, *found.demands} == set(snapshot.pods)
    given_to: dict[tuple[str, Kind], int] = {}
    for status in snapshot.pool.members:
        terms_of = snapshot.pods.get(status.number)
        if terms_of is None:
            continue
        if status.kind is Kind.OFFLINE:
            most = found.limits[status.number]
        else:
            demand = found.demands[status.number]
            most = demand.bound
            assert 0 <= demand.target <= most
            assert 0 <= demand.growth <= most
            assert most <= snapshot.pool.total - found.fixed
            assert demand.target >= min(most, max(status.used, status.wanted))
        assert 0 <= most <= status.capacity
        key = terms_of.uid, status.kind
        given_to[key] = given_to.get(key, 0) + most
        assert given_to[key] * BYTES <= terms_of.pool_bytes


@given(snapshots())
def test_the_same_said_twice_is_the_same(snapshot):
    """An agent that begins anew asks for what the last one asked for."""
    first = decide(snapshot)
    members = tuple(
        replace(status, target=first.demands[status.number].target) if status.number in first.demands else status
        for status in snapshot.pool.members
    )
    states = {number: demand.state for number, demand in first.demands.items() if demand.state}
    for kept in (states, {}):
        again = decide(replace(snapshot, pool=replace(snapshot.pool, members=members), states=kept))
        assert (again.fixed, again.limits) == (first.fixed, first.limits)
        assert {n: demand.target for n, demand in again.demands.items()} == {
            n: demand.target for n, demand in first.demands.items()
        }


@given(snapshots())
def test_the_owners_make_up_the_device(snapshot):
    total = snapshot.pool.total * BYTES + 123
    owned = owners(snapshot.pool, total)
    assert sum(owned.model_dump().values()) == total
    assert min(owned.model_dump().values()) >= 0
    online = owned.online_used_bytes + owned.online_ahead_bytes
    assert memory_sample(owned, 1.0).available + online + owned.fixed_bytes == total


@given(st.integers(0, 1000), st.integers(1, 50))
def test_parts_are_equal_and_complete(whole, count):
    parts = split(whole, count)
    assert (sum(parts), len(parts)) == (whole, count)
    assert max(parts) - min(parts) <= 1


def test_an_engine_begins_with_a_first_headroom_and_keeps_what_it_has():
    new = terms(pool(member(1, Kind.ONLINE)), {1: pod(64)}).demands[1]
    assert (new.target, new.bound) == (64 // FIRST_PART, 64)
    assert new.growth > new.target
    grown = member(1, Kind.ONLINE, target=30, used=20)
    assert terms(pool(grown), {1: pod(64)}).demands[1].target == 30


def test_an_engine_gets_more_under_pressure_and_later_less():
    status = member(1, Kind.ONLINE, target=20, used=19)
    pressed = terms(pool(status), {1: pod(64)}).demands[1]
    assert pressed.target > 20
    calm = replace(status, target=pressed.target, used=2)
    states = {1: pressed.state}
    later = terms(pool(calm), {1: pod(64)}, states=states, now=3600.0).demands[1]
    assert later.target < pressed.target


@pytest.mark.parametrize("kind", Kind)
def test_a_pod_without_a_part_of_the_pool_gets_nothing(kind):
    found = terms(pool(member(1, kind, target=5, used=5)), {1: pod(0)})
    assert found.limits == ({1: 0} if kind is Kind.OFFLINE else {})
    if kind is Kind.ONLINE:
        assert (found.demands[1].bound, found.demands[1].target, found.demands[1].growth) == (0, 0, 0)


def test_the_fixed_part_is_rounded_up_and_goes_before_an_engine():
    found = decide(MemorySnapshot(0.0, pool(member(1, Kind.ONLINE), total=10), 7 * BYTES + 1, {1: pod(10)}, {}))
    assert found.fixed == 8
    assert found.demands[1].bound == 2


def test_memory_for_a_new_pod_s_fixed_part_is_no_reclaim_of_the_policy():
    engine = member(1, Kind.ONLINE, target=20, used=2)
    before = terms(pool(engine), {1: pod(64)}).demands[1]
    states = {1: before.state}
    after = pool(engine, handles_reclaimed=9, reclaims=1)
    assert terms(after, {1: pod(64)}, states=states, now=5.0).demands[1].state.reclaim == -math.inf
    after = replace(after, handles_for_engines=1)
    assert terms(after, {1: pod(64)}, states=states, now=5.0).demands[1].state.reclaim == 5.0


def test_a_pods_processes_share_its_part_and_no_arena_is_exceeded():
    members = [member(number, capacity=capacity) for number, capacity in ((1, 100), (2, 2), (3, 100))]
    pods = dict.fromkeys((1, 2, 3), pod(8))
    assert terms(pool(*members), pods).limits == {1: 3, 2: 2, 3: 2}
    assert split(8, 3) == [3, 3, 2]
    assert split(7, 3) == [3, 2, 2]


def test_an_engine_and_a_job_of_one_pod_do_not_share():
    members = member(1, Kind.ONLINE, target=4), member(2), member(3)
    found = terms(pool(*members), {1: pod(6), 2: pod(6), 3: pod(5, "b")})
    assert (found.demands[1].bound, dict(found.limits)) == (6, {2: 6, 3: 5})


def test_a_part_is_whole_handles_and_no_more_than_the_pool():
    assert terms(pool(member(1)), {1: PodTerms("a", 3 * BYTES - 1, SETTINGS)}).limits == {1: 2}
    assert terms(pool(member(1), total=10), {1: pod(64)}).limits == {1: 10}
    assert terms(pool(member(1), total=10), {}, fixed=64).fixed == 10
    # What is fixed is taken from an engine's part; to offline work the pool gives what is left by itself.
    found = terms(pool(member(1, Kind.ONLINE), member(2), total=10), {1: pod(9), 2: pod(9, "b")}, fixed=4)
    assert (found.fixed, found.demands[1].bound, dict(found.limits)) == (4, 6, {2: 9})


@pytest.mark.parametrize(("bound", "target"), [(1, 1), (16, 1), (17, 2), (64, 4), (65, 5)])
def test_the_first_headroom_is_a_sixteenth_rounded_up(bound, target):
    assert terms(pool(member(1, Kind.ONLINE)), {1: pod(bound)}).demands[1].target == target


def test_an_engine_that_is_known_does_not_begin_again():
    first = terms(pool(member(1, Kind.ONLINE)), {1: pod(64)}).demands[1]
    shrunk = terms(pool(member(1, Kind.ONLINE, target=2)), {1: pod(64)}, states={1: first.state}).demands[1]
    assert shrunk.target == 2
    assert terms(pool(member(1, Kind.ONLINE, target=90)), {1: pod(64)}).demands[1].target == 64


@pytest.mark.parametrize(("used", "wanted"), [(19, 0), (0, 19), (19, 19), (7, 19)])
def test_what_is_asked_for_counts_as_used(used, wanted):
    status = member(1, Kind.ONLINE, target=20, used=used, wanted=wanted, pressures=3)
    demand = terms(pool(status), {1: pod(64)}).demands[1]
    # 19 of 20 is pressure: ceil(1.2 * 20), and once more for the native thread.
    assert (demand.target, demand.growth, demand.pressures, demand.threshold) == (24, 29, 3, 0.9)

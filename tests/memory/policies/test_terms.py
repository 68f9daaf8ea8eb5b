"""On what terms processes have memory: for any pool, pods and needs."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory.policies.statuses import BYTES, member, pool

from rowen.crds.online_service import HarvestMemory
from rowen.node_agent.memory.owners import memory_sample, owners
from rowen.node_agent.memory.pool import Kind
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
    sample = memory_sample(owned, snapshot.pool, 5, 1.0)
    assert sample.headroom + sample.available + owned.fixed_bytes == total
    assert sample.used <= sample.headroom


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

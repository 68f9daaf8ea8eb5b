"""Alignment and promises of every decision, worked out again from the reports with NumPy, not by the scheduler."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from math import sqrt

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler.builders import GIB, NOW, POLICY, device, job, node

from rowen.crds.job.offline_job_status import OfflineJobStatus
from rowen.scheduler.decision import decide
from rowen.scheduler.device import DeviceView
from rowen.scheduler.history import History
from rowen.scheduler.model.memory import linear_need
from rowen.scheduler.snapshot import JobView, NodeView, Placement, Snapshot

THETA = 0.6
CLASS_DEVIATION, SHARED_DEVIATION = 0.05, 0.05
"""Of a class that was never measured, whose b is twice as much; and of a part of a shared device."""
SPANS = [[(3, 9), (20, 31)], [(3, 9), (20, 30)], [(4, 10), (21, 33)], [(0, 15), (40, 55)], [(33, 36)], []]
"""Busy seconds of the last minute: some pairs are aligned and some are not."""
Hosts = Mapping[tuple[str, str], list[JobView]]


def busy_bits(view: DeviceView) -> np.ndarray:
    """The report's bitmap, a truth value for each cell."""
    assert view.busy is not None
    data = view.busy.bits.to_bytes(-(-view.busy.cells // 8), "little")
    return np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").astype(bool)


def alignment(one: DeviceView, other: DeviceView) -> float:
    """Time in which both are busy over that in which either is; 1 where both never are."""
    first, second = busy_bits(one), busy_bits(other)
    either = np.count_nonzero(first | second)
    return float(np.count_nonzero(first & second) / either) if either else 1.0


def idle(devices: list[DeviceView]) -> float:
    """The least idle device's part, and in lockstep no more than the time in which none is busy."""
    least = min(view.idle for view in devices)
    if len(devices) == 1:
        return least
    union = np.logical_or.reduce([busy_bits(view) for view in devices])
    assert devices[0].busy is not None
    return min(least, 1.0 - np.count_nonzero(union) / devices[0].busy.cells)


def memory(view: JobView, at: DeviceView, tenants: list[JobView]) -> float:
    """mean φ(m) less κ · mean shortfall, of an equal part of what the pool lends when all have their own memory."""
    if view.need is None or not at.available:
        return 1.0
    lent = np.maximum(0.0, np.array(at.available, float) - sum(tenant.memory for tenant in tenants))
    own = lent / len(tenants)
    worth = np.mean(np.minimum(1.0, own / view.pool))
    short = np.mean(np.maximum(0.0, view.pool - own)) / view.pool
    return float(np.clip(worth - view.need.loss * short, 0.0, 1.0))


def needed(view: JobView, devices: list[DeviceView], idle_part: float, worth: float, most: int) -> float:
    """SLA and margin: b is twice the larger deviation, within 0.02 and 0.5. Who has no SLA was promised nothing."""
    if view.sla is None:
        return 0.0
    doubt = view.need.doubt * (1.0 - worth) / worth if view.need and worth else 0.0
    noise = max(at.deviation for at in devices) / idle_part if idle_part else 0.0
    unsure = sqrt(noise**2 + doubt**2 + (SHARED_DEVIATION if most > 1 else 0.0) ** 2)
    bound = min(0.5, max(0.02, 2.0 * max(CLASS_DEVIATION, unsure)))
    return view.sla + view.sla * bound / (1.0 - bound)


def broken(snapshot: Snapshot) -> Iterator[str]:
    """What does not hold of the jobs' placements."""
    hosts: dict[tuple[str, str], list[JobView]] = {}
    placed = [(view, view.placement) for view in snapshot.jobs.values() if view.placement]
    for view, place in placed:
        for id_ in place.devices:
            hosts.setdefault((place.node, id_), []).append(view)
    for view, place in placed:
        at = [snapshot.nodes[place.node].by_id[id_] for id_ in place.devices]
        yield from (f"{view.name}: {one.id} and {other.id} are not aligned" for one, other in combinations(at, 2)
                    if alignment(one, other) < THETA)  # fmt: skip
        most = max(len(hosts[each.key]) for each in at)
        idle_part, worth = idle(at), min(memory(view, each, hosts[each.key]) for each in at)
        fraction = idle_part * worth / most
        if fraction < needed(view, at, idle_part, worth, most) - 1e-9:
            yield f"{view.name}: {fraction:.4f} is too little"
        yield from (f"{view.name}: its own memory does not fit" for each in at
                    if sum(tenant.memory for tenant in hosts[each.key]) > each.memory - each.online_memory)  # fmt: skip


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeView:
    """With pools that lend anything, and room for more than any job may want."""
    views = []
    for number in range(draw(st.integers(1, 4))):
        spans = draw(st.sampled_from(SPANS))
        seen = 1.0 - sum(end - begin for begin, end in spans) / 60.0
        lent = draw(st.lists(st.integers(0, 24), max_size=4))
        views.append(
            device(
                name, f"g{number}", idle=draw(st.sampled_from([seen, 0.9 * seen])),
                busy=[(NOW - 60.0 + begin, NOW - 60.0 + end) for begin, end in spans], memory=64 * GIB,
                available=tuple(GIB * amount for amount in sorted(lent)),
                deviation=draw(st.sampled_from([0.0, 0.01, 0.05])),
            )
        )  # fmt: skip
    return node(name, *views, slots=3 * len(views))


@st.composite
def jobs(draw: st.DrawFn, name: str) -> JobView:
    want = draw(st.sampled_from([0, 0, 2, 8])) * GIB
    need = linear_need(want, draw(st.sampled_from([0.0, 0.3])), draw(st.sampled_from([0.0, 0.2]))) if want else None
    return job(
        name, pool=want, need=need, memory=draw(st.integers(0, 6)) * GIB, devices=draw(st.sampled_from([1, 1, 2, 3])),
        sla=draw(st.sampled_from([None, 0.1, 0.2, 0.3, 0.5])), created=float(draw(st.integers(0, 2))),
    )  # fmt: skip


@st.composite
def queues(draw: st.DrawFn, name: str) -> list[JobView]:
    return [draw(jobs(f"{name}{number}")) for number in range(draw(st.integers(0, 6)))]


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, NodeView]:
    return {f"n{number}": draw(nodes(f"n{number}")) for number in range(draw(st.integers(1, 3)))}


def after(snapshot: Snapshot) -> Snapshot:
    """The world in which the decision about it holds."""
    decision = decide(snapshot, History(), NOW, POLICY)
    found = {outcome.job.uid: outcome.placement for outcome in decision.outcomes}
    status = OfflineJobStatus()
    placed = {uid: replace(view, placement=found[uid], status=status) for uid, view in snapshot.jobs.items()}
    return replace(snapshot, jobs=placed)


@settings(max_examples=200)
@given(clusters(), queues("a"), queues("b"))
def test_every_decision_keeps_alignment_and_all_promises(
    cluster: dict[str, NodeView], first: list[JobView], more: list[JobView]
) -> None:
    """Of jobs on an empty cluster, then of others beside them."""
    assert POLICY.alignment_threshold == THETA
    world = after(Snapshot(cluster, {view.uid: view for view in first}))
    assert list(broken(world)) == []
    world = after(replace(world, jobs={**world.jobs, **{view.uid: view for view in more}}))
    assert list(broken(world)) == []


def standing(view: JobView, *devices: str) -> JobView:
    return replace(view, placement=Placement("id", "n", devices, 0.5, NOW, NOW, 30.0))


def test_what_does_not_hold_is_found() -> None:
    """The check itself, on devices that are busy together for 2 s of 22; two tenants have 0.4 of the time each.

    Of 4 GiB that are lent two tenants have 1 for themselves and 1 of the pool each.
    """
    apart = [device("n", f"g{at}", idle=0.8, busy=[(NOW - 60 + 10 * at, NOW - 48 + 10 * at)], memory=8 * GIB,
                    available=(4 * GIB,)) for at in range(2)]  # fmt: skip

    def found(*views: JobView) -> list[str]:
        return list(broken(Snapshot({"n": node("n", *apart)}, {view.uid: view for view in views})))

    assert found(standing(job("a"), "g0", "g1")) == ["a: g0 and g1 are not aligned"]
    assert found(standing(job("a", sla=0.7), "g0"), standing(job("b"), "g1")) == []
    assert found(standing(job("a", sla=0.7), "g0"), standing(job("b"), "g0")) == ["a: 0.4000 is too little"]
    pool = standing(job("a", pool=2 * GIB, need=linear_need(2 * GIB), sla=0.3), "g0")
    assert found(pool) == []
    assert found(pool, standing(job("b"), "g0")) == ["a: 0.2000 is too little"]
    assert found(standing(job("a", memory=7 * GIB), "g0")) == ["a: its own memory does not fit"]

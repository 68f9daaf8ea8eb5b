"""What holds in every world."""

import copy
from dataclasses import replace
from itertools import combinations
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler.builders import GIB, NOW, POLICY, device, job, node, placed, pod, tenant

from rowen.crds.job.offline_job_status import OfflineJobStatus
from rowen.scheduler.decision import Action, Decision, decide
from rowen.scheduler.device import DeviceView
from rowen.scheduler.history import History
from rowen.scheduler.model.memory import linear_need
from rowen.scheduler.model.promise import NO_PROMISE, Promise
from rowen.scheduler.placement.census import build_fleet
from rowen.scheduler.placement.constraints import Constraints, Taint, constraints_of
from rowen.scheduler.placement.eligibility import exclusion
from rowen.scheduler.placement.fleet.columns import ALL
from rowen.scheduler.placement.fleet.fleet import Fleet
from rowen.scheduler.placement.fleet.states import NodeState
from rowen.scheduler.placement.search.choice import choose, claim_of
from rowen.scheduler.placement.search.evaluation import evaluate
from rowen.scheduler.placement.search.request import Request
from rowen.scheduler.snapshot import JobView, NodeView, Snapshot

HISTORY = History()
TAINT = Taint("dedicated", "db", "NoSchedule")
TOLERANT = constraints_of({"spec": {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}})
IN_A = constraints_of({"spec": {"nodeSelector": {"zone": "a"}}})


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeView:
    devices = []
    for number in range(draw(st.integers(1, 3))):
        spans = tuple((NOW - 60 + 20 * i, NOW - 60 + 20 * i + draw(st.integers(1, 20))) for i in range(3))
        devices.append(
            device(
                name,
                f"cpu{number}",
                idle=draw(st.sampled_from([0.0, 0.1, 0.3, 0.3, 0.5, 0.9, 1.0])),
                busy=spans if draw(st.booleans()) else (),
                memory=draw(st.integers(2, 9)) * GIB,
                available=tuple(GIB * amount for amount in sorted(draw(st.lists(st.integers(0, 16), max_size=4)))),
                deviation=draw(st.sampled_from([0.0, 0.0, 0.02])),
                attached=draw(st.integers(0, 9)) > 0,
                refusal=draw(st.sampled_from(["", "", "", "owner says no"])),
                restraint=draw(st.sampled_from(["", "", "", "one at a time"])),
            )
        )
    return node(
        name,
        *devices,
        slots=draw(st.integers(0, 2 * len(devices))),
        ready=draw(st.integers(0, 9)) > 0,
        reported=draw(st.sampled_from([NOW, NOW, NOW - 10, NOW - POLICY.lease_seconds - 1, NOW - 100, None])),
        taints=draw(st.sampled_from([(), (), (TAINT,)])),
        labels={"zone": draw(st.sampled_from("ab"))},
    )


@st.composite
def jobs(draw: st.DrawFn, name: str) -> JobView:
    want = draw(st.sampled_from([0, 0, 2, 8])) * GIB
    need = linear_need(want, draw(st.sampled_from([0.0, 0.5])), draw(st.sampled_from([0.0, 0.1]))) if want else None
    return job(
        name,
        pool=want,
        need=need,
        memory=draw(st.integers(2, 10)) * GIB // 2,
        devices=draw(st.sampled_from([1, 1, 2, 3])),
        sla=draw(st.sampled_from([None, None, 0.1, 0.2, 0.4])),
        priority=draw(st.integers(-1, 1)),
        constraints=draw(st.sampled_from([Constraints(), TOLERANT, IN_A])),
        created=float(draw(st.integers(0, 2))),
        suspended=draw(st.integers(0, 9)) == 0,
    )


@st.composite
def worlds(draw: st.DrawFn) -> Snapshot:
    found = [draw(nodes(f"n{number}")) for number in range(draw(st.integers(0, 4)))]
    wanted = [draw(jobs(f"j{number}")) for number in range(draw(st.integers(0, 8)))]
    return Snapshot({view.name: view for view in found}, {view.uid: view for view in wanted})


def every_node(fleet: Fleet) -> list[NodeState]:
    return [fleet.node(number) for number in range(len(fleet.views))]


def settled(snapshot: Snapshot, decision: Decision) -> Snapshot:
    """The world in which the decision has been applied."""
    after = {}
    for view in snapshot.jobs.values():
        found = decision.outcome(view.uid)
        assert found is not None
        after[view.uid] = replace(view, placement=found.placement, status=OfflineJobStatus())
    return replace(snapshot, jobs=after)


@settings(max_examples=150)
@given(worlds())
def test_nothing_is_over_committed_and_every_promise_holds(snapshot: Snapshot) -> None:
    after = settled(snapshot, decide(snapshot, HISTORY, NOW, POLICY))
    fleet, held = build_fleet(after, HISTORY, (), NOW, POLICY)
    for state in every_node(fleet):
        assert state.free_slots >= 0
        for device_state in state.rows:
            if device_state.claims:
                assert device_state.free >= 0
                assert len(device_state.claims) <= device_state.slots
                assert len(device_state.claims) == 1 or not device_state.view.restraint
    for _, claim in held.values():
        assert fleet.standing(claim).fraction >= claim.promise.need(fleet.standing(claim).uncertainty)
        assert fleet.standing(claim).fraction > 0


def reported(snapshot: Snapshot) -> Snapshot:
    """The world after the next report: it knows every job's pod, whose own memory the pool no longer lends."""
    holders = {
        view.uid: (view, view.placement) for view in snapshot.jobs.values() if view.placement and not view.finished
    }

    def after(each: DeviceView) -> DeviceView:
        on_it = [view for view, placed_ in holders.values() if placed_.node == each.node and each.id in placed_.devices]
        taken = sum(view.memory for view in on_it if tenant(view) not in each.tenants)
        available = tuple(max(0, amount - taken) for amount in each.available)
        return replace(each, available=available, tenants=tuple(tenant(view) for view in on_it))

    nodes_ = {
        name: replace(view, devices=tuple(after(each) for each in view.devices))
        for name, view in snapshot.nodes.items()
    }
    pods = tuple(pod(view, placed_.node, *placed_.devices, assignment=placed_.id) for view, placed_ in holders.values())
    return replace(snapshot, nodes=nodes_, pods=pods)


@settings(max_examples=150)
@given(worlds(), st.lists(jobs("new"), max_size=1))
def test_when_the_report_knows_the_newcomers_every_prediction_is_what_it_was(
    snapshot: Snapshot, new: list[JobView]
) -> None:
    """Placed where the report knows nobody, then beside jobs that it knows."""
    world = snapshot
    for more in ([], new):
        world = replace(world, jobs={**world.jobs, **{view.uid: view for view in more}})
        promised = settled(world, decide(world, HISTORY, NOW, POLICY))
        before, held = build_fleet(promised, HISTORY, (), NOW, POLICY)
        world = reported(promised)
        after, _ = build_fleet(world, HISTORY, (), NOW, POLICY)
        for _, claim in held.values():
            assert abs(after.standing(claim).fraction - before.standing(claim).fraction) < 1e-12
            assert after.standing(claim).fraction >= claim.promise.need(after.standing(claim).uncertainty)


@settings(max_examples=100)
@given(worlds(), st.randoms(use_true_random=False))
def test_a_decision_depends_on_the_world_alone(snapshot: Snapshot, random: Any) -> None:
    names, uids = list(snapshot.nodes), list(snapshot.jobs)
    random.shuffle(names)
    random.shuffle(uids)
    shuffled = Snapshot({name: snapshot.nodes[name] for name in names}, {uid: snapshot.jobs[uid] for uid in uids})
    before = copy.deepcopy(snapshot)
    first, second = decide(snapshot, HISTORY, NOW, POLICY), decide(shuffled, HISTORY, NOW, POLICY)
    assert first == second
    assert snapshot == before


@settings(max_examples=100)
@given(worlds())
def test_stale_and_unready_nodes_get_nothing(snapshot: Snapshot) -> None:
    for found in decide(snapshot, HISTORY, NOW, POLICY).outcomes:
        if found.action is Action.PLACE:
            assert found.placement is not None
            chosen = snapshot.nodes[found.placement.node]
            assert chosen.age(NOW) <= POLICY.lease_seconds
            assert chosen.ready
            assert exclusion(chosen, found.job.constraints) == ""
            for id_ in found.placement.devices:
                target = chosen.device(id_)
                assert target is not None
                assert target.attached
                assert not target.refusal


@settings(max_examples=100)
@given(worlds())
def test_a_second_pass_moves_no_one(snapshot: Snapshot) -> None:
    after = settled(snapshot, decide(snapshot, HISTORY, NOW, POLICY))
    again = decide(after, HISTORY, NOW, POLICY)
    lockstep = any(view.devices > 1 or view.pool for view in snapshot.jobs.values())
    for found in again.outcomes:
        # What a job in lockstep, or its memory, would have lost to one newcomer it may have lost to another by now.
        assert found.action in (Action.KEEP, Action.HOLD, Action.WAIT, *([Action.PLACE] if lockstep else []))
        if after.jobs[found.job.uid].placement is not None:
            assert found.placement == after.jobs[found.job.uid].placement


def fractions(fleet: Fleet) -> dict[str, float]:
    """What every claim gets, as device time."""
    states = [state for found in every_node(fleet) for state in found.rows]
    claims = {claim.key: claim for state in states for claim in state.claims.values()}
    return {key: fleet.standing(claim).fraction * len(claim.devices) for key, claim in claims.items()}


@settings(max_examples=200)
@given(worlds(), st.lists(st.integers(-1, 2), max_size=4), st.data())
def test_a_placement_lowers_the_total_only_for_a_job_that_goes_before_all_who_pay(
    snapshot: Snapshot, priorities: list[int], data: st.DataObject
) -> None:
    before = settled(snapshot, decide(snapshot, HISTORY, NOW, POLICY))
    new = [replace(data.draw(jobs(f"new{i}")), priority=priority) for i, priority in enumerate(priorities)]
    world = replace(before, jobs={**before.jobs, **{view.uid: view for view in new}})
    fleet, _ = build_fleet(before, HISTORY, (), NOW, POLICY)
    for found in decide(world, HISTORY, NOW, POLICY).outcomes:
        if found.action is not Action.PLACE:
            continue
        assert found.placement is not None
        had = fractions(fleet)
        devices, appetite = found.placement.devices, HISTORY.appetite(found.job)
        fleet.add(claim_of(found.job, found.placement.node, devices, NO_PROMISE, appetite, 1.0))
        has = fractions(fleet)
        payers = [uid for uid, fraction in had.items() if has[uid] < fraction - 1e-9]
        if sum(has.values()) < sum(had.values()) - 1e-6:
            assert all(world.jobs[uid].priority < found.job.priority for uid in payers)


def state_of(fleet: Fleet) -> object:
    states = [(dict(state.claims), state.free) for found in every_node(fleet) for state in found.rows]
    columns = fleet.settled()
    rows = [list(column) for column in (columns.share, columns.free, columns.loss, columns.payer, columns.takes)]
    return states, [found.free_slots for found in every_node(fleet)], rows


@settings(max_examples=100)
@given(worlds(), jobs("new"))
def test_asking_changes_nothing(snapshot: Snapshot, new: JobView) -> None:
    fleet, _ = build_fleet(snapshot, HISTORY, (), NOW, POLICY)
    before = state_of(fleet)
    choose(Request(new, Promise(new.sla), {}, appetite=HISTORY.appetite(new)), fleet, POLICY)
    assert state_of(fleet) == before


@settings(max_examples=150)
@given(worlds(), jobs("new"))
def test_the_walk_finds_what_a_full_search_finds(snapshot: Snapshot, new: JobView) -> None:
    """Early ends of the walk over single devices lose nothing."""
    new = replace(new, devices=1)
    after = settled(snapshot, decide(snapshot, HISTORY, NOW, POLICY))
    fleet, _ = build_fleet(after, HISTORY, (), NOW, POLICY)
    request = Request(new, Promise(new.sla), {}, appetite=HISTORY.appetite(new))
    states = [state for found in every_node(fleet) for state in found.open_devices()]
    everything = [evaluate(request, fleet, (state,), POLICY) for state in states]
    fitting = sorted((candidate for candidate in everything if not candidate.refusal), key=lambda c: c.rank)
    chosen = choose(request, fleet, POLICY).chosen
    assert (chosen.place if chosen else None) == (fitting[0].place if fitting else None)


@settings(max_examples=150)
@given(worlds(), jobs("new"))
def test_the_search_for_pairs_finds_the_best_gain(snapshot: Snapshot, new: JobView) -> None:
    new = replace(new, devices=2)
    after = settled(snapshot, decide(snapshot, HISTORY, NOW, POLICY))
    fleet, _ = build_fleet(after, HISTORY, (), NOW, POLICY)
    request = Request(new, Promise(new.sla), {}, appetite=HISTORY.appetite(new))
    pairs = [pair for found in every_node(fleet) for pair in combinations(found.open_devices(), 2)]
    everything = [evaluate(request, fleet, pair, POLICY) for pair in pairs]
    gains = [candidate.gain for candidate in everything if not candidate.refusal]
    chosen = choose(request, fleet, POLICY).chosen
    assert (chosen.gain if chosen else None) == (max(gains) if gains else None)


@settings(max_examples=150)
@given(worlds(), jobs("new"), st.integers(1, 3), st.data())
def test_with_rates_the_best_gain_is_found_for_any_number_of_devices(
    snapshot: Snapshot, new: JobView, count: int, data: st.DataObject
) -> None:
    types = st.sampled_from(["cpu", "gpu", "new"])
    typed = {
        name: replace(view, devices=tuple(replace(each, type=data.draw(types)) for each in view.devices))
        for name, view in snapshot.nodes.items()
    }
    after = settled(snapshot, decide(snapshot, HISTORY, NOW, POLICY))
    fleet, _ = build_fleet(replace(after, nodes=typed), HISTORY, (), NOW, POLICY)
    request = Request(
        replace(new, devices=count), Promise(new.sla), {}, {"cpu": 0.3, "gpu": 1.0}, HISTORY.appetite(new)
    )
    found = [set_ for node_ in every_node(fleet) for set_ in combinations(node_.open_devices(), count)]
    everything = [evaluate(request, fleet, set_, POLICY) for set_ in found]
    gains = [candidate.gain for candidate in everything if not candidate.refusal]
    chosen = choose(request, fleet, POLICY).chosen
    assert (chosen is None) == (not gains)
    assert chosen is None or abs(chosen.gain - max(gains)) < 2e-9


@settings(max_examples=100)
@given(worlds(), jobs("new"))
def test_a_search_goes_by_the_very_numbers_that_are_promised(snapshot: Snapshot, new: JobView) -> None:
    after = settled(snapshot, decide(snapshot, HISTORY, NOW, POLICY))
    fleet, _ = build_fleet(after, HISTORY, (), NOW, POLICY)
    for appetite in (None, HISTORY.appetite(new)):
        shares, unsure = (
            fleet.offer(appetite, new.memory).exact().shares,
            fleet.offer(appetite, new.memory).exact().uncertainties(ALL),
        )
        needs = Promise(0.3).needs(unsure)
        for state in (state for found in every_node(fleet) for state in found.rows):
            predicted = fleet.predict((state,), new, appetite)
            promised = predicted.idle * predicted.sharing * predicted.memory
            assert (shares[state.row], fleet.newcomer((state,), new.memory, appetite).fraction) == (promised, promised)
            assert unsure[state.row] == predicted.uncertainty
            assert needs[state.row] == Promise(0.3).need(predicted.uncertainty)


@settings(max_examples=50)
@given(worlds(), jobs("new"))
def test_a_neighbour_counts_the_same_before_and_after(snapshot: Snapshot, new: JobView) -> None:
    """A job that was placed is predicted exactly as it was promised."""
    decision = decide(replace(snapshot, jobs={new.uid: replace(new, suspended=False)}), HISTORY, NOW, POLICY)
    found = decision.outcome(new.uid)
    assert found is not None
    if found.placement is not None:
        fleet = Fleet(snapshot.nodes, NOW, POLICY)
        claim = claim_of(new, found.placement.node, found.placement.devices, NO_PROMISE, HISTORY.appetite(new), 1.0)
        fleet.add(claim)
        assert abs(fleet.standing(claim).fraction - found.placement.predicted) < 1e-9


@settings(max_examples=150)
@given(worlds(), jobs("new"), st.data())
def test_more_memory_or_more_idle_time_never_predicts_less(
    snapshot: Snapshot, new: JobView, data: st.DataObject
) -> None:
    """Of a newcomer and of those who are there; and more predicts no more doubt of the memory."""

    def better(view: DeviceView) -> DeviceView:
        more = tuple(amount + data.draw(st.integers(0, 4)) * GIB for amount in view.available)
        return replace(
            view, available=tuple(sorted(more)), idle=min(1.0, view.idle + data.draw(st.sampled_from([0, 0.2])))
        )

    after = settled(snapshot, decide(snapshot, HISTORY, NOW, POLICY))
    richer = {
        name: replace(view, devices=tuple(better(each) for each in view.devices)) for name, view in after.nodes.items()
    }
    before, held = build_fleet(after, HISTORY, (), NOW, POLICY)
    then, _ = build_fleet(replace(after, nodes=richer), HISTORY, (), NOW, POLICY)
    appetite = HISTORY.appetite(new)
    shares = before.offer(appetite, new.memory).exact().shares, then.offer(appetite, new.memory).exact().shares
    assert (shares[1] >= shares[0] - 1e-12).all()
    for _, claim in (entry for entry in held.values() if len(entry[1].devices) == 1):
        assert then.standing(claim).fraction >= before.standing(claim).fraction - 1e-12


def test_pods_on_their_way_out_count_once() -> None:
    view = placed(job("j"), "n")
    fleet, _ = build_fleet(
        Snapshot({"n": node("n")}, {view.uid: view}, (pod(view, "n"), pod(view, "n", assignment="old"))),
        HISTORY, (), NOW, POLICY,
    )  # fmt: skip
    assert fleet.node(0).free_slots == 0

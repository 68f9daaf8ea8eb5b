"""Where jobs go, and the reason that is given."""

from dataclasses import replace

import pytest
from scheduler.builders import GIB, NOW, POLICY, device, job, node, outcome, placed, pod, run, tenant, world

from rowen.crds.common import set_condition
from rowen.scheduler.decision import Action
from rowen.scheduler.history import History
from rowen.scheduler.model.profile import PredictionError
from rowen.scheduler.monitor.backoff import Backoff
from rowen.scheduler.placement.census import build_fleet
from rowen.scheduler.placement.constraints import Constraints, Taint, constraints_of
from rowen.scheduler.placement.fleet.columns import Flags
from rowen.scheduler.placement.fleet.eligible import Eligible
from rowen.scheduler.snapshot import JobView, NodeView

EXACT = History(errors={"class": PredictionError(0.0, 0.0)})
"""A predictor that is always right: the margin is the least one, 2 %."""


def test_the_idlest_device_is_taken() -> None:
    decision = run(node("a", device("a", idle=0.3)), node("b", device("b", idle=0.7)), job("j"))
    found = outcome(decision, "j")
    assert found.action is Action.PLACE
    assert found.placement is not None
    assert (found.placement.node, found.placement.devices) == ("b", ("cpu0",))
    assert found.placement.predicted == pytest.approx(0.7)
    assert found.chosen
    assert [candidate.node for candidate in found.candidates] == ["b", "a"]
    assert "idle 0.70 x sharing 1.00" in found.message


@pytest.mark.parametrize(
    ("world", "asked", "reason"),
    [
        (
            node("n", device("n", idle=0.12)),
            job("j", sla=0.2),
            "n/cpu0: idle 0.12 < SLA 0.20 + margin 0.02; up to 0.10 can",
        ),
        (node("n", device("n", idle=0.0)), job("j"), "idle 0.000: nothing to harvest"),
        (node("n"), job("j", memory=7 * GIB), "7.00Gi, the most that a service leaves is 6.00Gi of 8.00Gi"),
        (node("n", slots=0), job("j"), "no free harvest slot (0 of 0 free on the node)"),
        (node("n", reported=NOW - 40), job("j"), "its agent has been silent for 40 s > 30 s"),
        (node("n", told=NOW - 121), job("j"), "its last report is 121 s old > 120 s"),
        (node("n", reported=None), job("j"), "no report of its agent"),
        (node("n", ready=False), job("j"), "node is not Ready"),
        (node("n", schedulable=False), job("j"), "node is cordoned"),
        (node("n", device("n", attached=False)), job("j"), "no online engine attached"),
        (node("n", device("n", online_memory=None)), job("j"), "memory is not known"),
        (node("n", device("n", refusal="OnlineService ns/s is gone")), job("j"), "OnlineService ns/s is gone"),
    ],
)
def test_a_refusal_names_the_factor_and_its_number(world: object, asked: object, reason: str) -> None:
    found = outcome(run(world, asked), "j")  # type: ignore[arg-type]
    assert found.action is Action.WAIT
    assert reason in found.message


@pytest.mark.parametrize(
    ("idle", "told"),
    [
        (0.6, "sharing 0.50 x idle 0.60 = 0.30 < SLA 0.40 + margin 0.04; alone there it would get at least 0.60"),
        (0.4, "idle 0.40 x sharing 0.50 = 0.20 < SLA 0.40 + margin 0.04; up to 0.18 can be promised here"),
    ],
)
def test_of_two_factors_the_smaller_is_named_first(idle: float, told: str) -> None:
    first = placed(job("a"), "n")
    found = outcome(run(node("n", device("n", idle=idle)), first, job("j", sla=0.4), history=EXACT), "j")
    assert found.message == f"no candidate holds: n/cpu0: {told}"


def test_a_third_of_a_device_is_compared_as_it_is_promised() -> None:
    """0.67 / 3 is a little more than 0.67 * (1 / 3): a device may not be found by the one and refused by the other."""
    two = [placed(job(name), "n") for name in "ab"]
    found, _ = build_fleet(world(node("n", device("n", idle=0.67), slots=3), *two), EXACT, (), NOW, POLICY)
    (state,) = found.node(0).rows
    promised = found.predict((state,), job("j"), None).fraction
    assert promised == 0.67 * (1 / 3) != 0.67 / 3
    assert (found.settled().share[0], found.newcomer((state,), GIB, None).fraction) == (promised, promised)


@pytest.mark.parametrize(("idle", "action"), [(0.005, Action.PLACE), (0.0049, Action.WAIT)])
def test_best_effort_takes_half_a_percent_and_no_less(idle: float, action: Action) -> None:
    assert outcome(run(node("n", device("n", idle=idle)), job("j")), "j").action is action


def test_a_prediction_that_just_meets_the_promise_is_taken() -> None:
    need = EXACT.promise("class", 0.3).need(0.0)
    for idle, action in ((need, Action.PLACE), (need - 1e-6, Action.WAIT)):
        found = outcome(run(node("n", device("n", idle=idle)), job("j", sla=0.3), history=EXACT), "j")
        assert found.action is action


def test_a_neighbour_may_fall_to_what_it_was_promised() -> None:
    """Beside another its part is unsure by 5 %."""
    need = EXACT.promise("class", 0.3).need(0.05)
    assert need == pytest.approx(0.3 + 0.3 * 0.1 / 0.9)
    for idle, action in ((2 * need, Action.PLACE), (2 * need - 1e-6, Action.WAIT)):
        first = placed(job("a", sla=0.3), "n")
        assert outcome(run(node("n", device("n", idle=idle)), first, job("j"), history=EXACT), "j").action is action


def test_a_promise_says_beside_how_many_it_was_made() -> None:
    decision = run(node("n", slots=3), placed(job("a"), "n"), job("b", created=1.0), job("c", created=2.0))
    for name, promised in (("b", (0.4, 2)), ("c", (0.8 / 3, 3))):
        found = outcome(decision, name).placement
        assert found is not None
        assert (found.predicted, found.tenants) == pytest.approx(promised)


@pytest.mark.parametrize(("memory", "action"), [(6 * GIB, Action.PLACE), (6 * GIB + 1, Action.WAIT)])
def test_memory_may_be_used_up(memory: int, action: Action) -> None:
    assert outcome(run(node("n"), job("j", memory=memory)), "j").action is action


@pytest.mark.parametrize("devices", [("g0", "g1"), ("g1", "g0")])
def test_the_device_with_the_least_memory_is_named(devices: tuple[str, str]) -> None:
    pools = {"g0": 8 * GIB, "g1": 3 * GIB}
    world = node("n", *(device("n", id_, memory=pools[id_]) for id_ in devices))
    found = outcome(run(world, job("j", devices=2, memory=2 * GIB)), "j")
    assert "memory 0: needs 2.00Gi, 1.00Gi of 3.00Gi left on g1" in found.message
    assert not found.candidates[0].prediction.fits


def test_a_pool_that_is_overdrawn_has_nothing_free() -> None:
    world = [node("n"), pod(job("big", memory=7 * GIB), "n"), job("j")]
    assert "0.00Gi of 8.00Gi left" in outcome(run(*world), "j").message


@pytest.mark.parametrize(
    ("slots", "jobs", "told"),
    [
        (4, 2, "no free harvest slot (2 of 4 free on the node)"),
        (3, 2, "no free harvest slot (1 of 3 free on the node)"),
        (2, 1, "no free harvest slot (1 of 2 free on the node)"),
        (3, 1, ""),
    ],
)
def test_slots_are_spread_over_the_devices(slots: int, jobs: int, told: str) -> None:
    """Each device takes its part of the node's slots, rounded up."""
    world = node("n", device("n", "g0", idle=0.9), device("n", "g1", attached=False), slots=slots)
    held = [placed(job(f"h{number}"), "n", "g0") for number in range(jobs)]
    found = outcome(run(world, *held, job("j")), "j")
    assert (found.action is Action.PLACE) == (told == "")
    assert told in found.message


def test_a_set_needs_a_slot_for_each_device() -> None:
    world = node("n", device("n", "g0"), device("n", "g1"), device("n", "g2"), slots=3)
    found = outcome(run(world, placed(job("a"), "n", "g2"), pod(job("b"), "n", "none"), job("j", devices=2)), "j")
    assert "no free harvest slot (1 of 3 free on the node)" in found.message


def test_a_set_needs_a_slot_on_each_device() -> None:
    """Two slots of the node are free, both of them on the other device."""
    world = [node("n", device("n", "g0"), device("n", "g1")), *(placed(job(name), "n", "g0") for name in "ab")]
    found = outcome(run(*world, job("j", devices=2)), "j")
    assert found.action is Action.WAIT
    assert "no free harvest slot (2 of 4 free on the node)" in found.message


@pytest.mark.parametrize(
    ("held", "idles", "first"),
    [
        ({"g0": 1}, (0.9, 0.3, 0.3), ("g1", "g2")),
        ({"g0": 2, "g1": 1, "g2": 1}, (0.9, 0.4, 0.4), ("g0", "g1")),
        ({"g0": 4, "g1": 1, "g2": 1}, (0.9, 0.4, 0.4), ("g1", "g2")),
    ],
)
def test_the_set_that_is_told_has_empty_devices_first_then_shared_and_full_ones(
    held: dict[str, int], idles: tuple[float, ...], first: tuple[str, ...]
) -> None:
    """In each by what a newcomer would get there; none has the memory that is asked for."""
    devices = [device("n", f"g{at}", idle=idle) for at, idle in enumerate(idles)]
    jobs = [placed(job(f"{id_}{number}"), "n", id_) for id_, count in held.items() for number in range(count)]
    found = outcome(run(node("n", *devices, slots=12), *jobs, job("j", devices=2, memory=7 * GIB)), "j")
    assert found.candidates[0].devices == first


def test_two_slots_on_one_device_hold_the_memory_of_two() -> None:
    world = [node("n", slots=4), placed(job("wide", devices=2, memory=2 * GIB), "n", "cpu0")]
    assert outcome(run(*world, job("j", memory=2 * GIB)), "j").action is Action.PLACE
    assert "2.00Gi of 8.00Gi left" in outcome(run(*world, job("j", memory=3 * GIB)), "j").message


def test_an_assignment_without_devices_takes_slots_alone() -> None:
    held = placed(job("a"), "n")
    assert held.placement is not None
    held = replace(held, placement=replace(held.placement, devices=()))
    decision = run(node("n"), held, job("b"), job("c"))
    assert [outcome(decision, name).action for name in "abc"] == [Action.KEEP, Action.PLACE, Action.WAIT]
    assert outcome(decision, "a").fraction == 0.0


def test_a_node_without_devices_is_no_candidate() -> None:
    assert outcome(run(NodeView("n", slots=2, reported=NOW), job("j")), "j").message == (
        "no node reports a harvested device"
    )


def test_an_empty_device_is_preferred_to_a_shared_one_that_promises_more() -> None:
    first = placed(job("a"), "busy")
    decision = run(node("busy", device("busy", idle=1.0)), node("free", device("free", idle=0.4)), first, job("j"))
    found = outcome(decision, "j")
    assert found.placement is not None
    assert found.placement.node == "free"


def test_a_neighbours_sla_is_kept() -> None:
    first = placed(job("a", sla=0.5), "n")
    found = outcome(run(node("n"), first, job("j"), history=EXACT), "j")
    assert found.action is Action.WAIT
    assert "ns/a would fall to 0.40 < its SLA with margin 0.56" in found.message


def test_capacity_decided_in_the_pass_counts() -> None:
    decision = run(node("n", slots=1), job("a", created=1.0), job("b", created=2.0))
    assert outcome(decision, "a").action is Action.PLACE
    assert "no free harvest slot" in outcome(decision, "b").message


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (job("x", priority=5, created=9.0), job("a", created=1.0)),
        (job("x", created=1.0), job("a", created=2.0)),
        (job("a", created=1.0), job("x", created=1.0)),
    ],
)
def test_priority_then_age_then_name(first: object, second: object) -> None:
    decision = run(node("n", slots=1), second, first)  # type: ignore[arg-type]
    assert outcome(decision, first.name).action is Action.PLACE  # type: ignore[attr-defined]
    assert outcome(decision, second.name).action is Action.WAIT  # type: ignore[attr-defined]


def test_only_a_jobs_own_memory_has_to_be_free_and_both_are_told() -> None:
    elastic = job("j", memory=3 * GIB, pool=2 * GIB)
    full = device("n", online_memory=5 * GIB)
    found = outcome(run(node("n", full), elastic), "j")
    told = "; 3.00Gi of memory of its own, up to 5.00Gi with the device's pool"
    assert (found.action, found.message.endswith(f"sharing 1.00){told}")) == (Action.PLACE, True)
    stays = outcome(run(node("n", full), placed(elastic, "n")), "j")
    assert stays.message == f"placed on n/cpu0: predicted 0.80 of its throughput alone{told}"
    tighter = outcome(run(node("n", device("n", online_memory=5 * GIB + 1)), elastic), "j")
    assert tighter.action is Action.WAIT
    # Its neighbour sees the job with what is its own.
    both = run(node("n"), placed(elastic, "n"), job("k", memory=3 * GIB))
    assert outcome(both, "k").action is Action.PLACE


def test_two_jobs_share_a_device_up_to_its_slots() -> None:
    decision = run(node("n"), job("a"), job("b"), job("c"))
    actions = [outcome(decision, name).action for name in "abc"]
    assert actions == [Action.PLACE, Action.PLACE, Action.WAIT]


def test_a_pod_without_assignment_still_holds_its_slot_and_memory() -> None:
    old = job("old", memory=4 * GIB)
    decision = run(node("n", device("n", tenants=(tenant(old),))), pod(old, "n"), job("j", memory=3 * GIB))
    assert "memory 0: needs 3.00Gi, 2.00Gi of 8.00Gi left" in outcome(decision, "j").message


def test_backoff_keeps_a_job_off_its_node_only() -> None:
    history = History(backoffs={("uid-j", "a"): Backoff(2, NOW + 60, "SLAViolated")})
    one = outcome(run(node("a"), job("j"), history=history), "j")
    assert "back-off until" in one.message
    assert "after SLAViolated (attempt 2 on this node)" in one.message
    both = outcome(run(node("a"), node("b", device("b", idle=0.1)), job("j"), history=history), "j")
    assert both.placement is not None
    assert both.placement.node == "b"
    assert outcome(run(node("a"), job("j"), history=history, now=NOW + 61 - 50), "j").action is Action.WAIT
    assert (
        outcome(run(node("a", reported=NOW + 61), job("j"), history=history, now=NOW + 61), "j").action is Action.PLACE
    )


def test_the_margin_covers_the_measured_error() -> None:
    sloppy = History(errors={"class": PredictionError(mean=0.2, variance=0.0025)})
    world = node("n", device("n", idle=0.5))
    assert outcome(run(world, job("j", sla=0.4), history=EXACT), "j").action is Action.PLACE
    refused = outcome(run(world, job("j", sla=0.4), history=sloppy), "j")
    assert "idle 0.50 < SLA 0.40 + margin 0.17" in refused.message


def test_devices_that_do_not_say_when_they_were_busy_take_no_lockstep() -> None:
    silent = node("n", *(replace(device("n", id_, idle=0.5), busy=None) for id_ in ("g0", "g1")))
    assert (
        "n/g0+g1: alignment 0.00 < 0.60; services that are busy at the same time"
        in outcome(run(silent, job("j", devices=2)), "j").message
    )
    assert outcome(run(silent, job("j")), "j").action is Action.PLACE


def test_lockstep_needs_aligned_devices() -> None:
    end = NOW
    early, late = ((end - 60, end - 30),), ((end - 30, end),)
    apart = node("n", device("n", "g0", idle=0.5, busy=early), device("n", "g1", idle=0.5, busy=late))
    refused = outcome(run(apart, job("j", devices=2)), "j")
    assert "n/g0+g1: alignment 0.00 < 0.60" in refused.message
    together = node("n", device("n", "g0", idle=0.5, busy=early), device("n", "g1", idle=0.5, busy=early))
    found = outcome(run(together, job("j", devices=2)), "j")
    assert found.placement is not None
    assert found.placement.devices == ("g0", "g1")
    assert found.placement.predicted == pytest.approx(0.5)


def test_lockstep_idles_when_any_device_is_busy() -> None:
    busy0, busy1 = ((NOW - 60, NOW - 20),), ((NOW - 50, NOW - 15),)
    world = node("n", device("n", "g0", idle=0.33, busy=busy0), device("n", "g1", idle=0.41, busy=busy1))
    found = outcome(run(world, job("j", devices=2)), "j")
    assert found.placement is not None
    assert found.placement.predicted == pytest.approx(1 - 45 / 60)


def test_the_best_set_of_several_is_taken() -> None:
    busy, other = ((NOW - 30, NOW),), ((NOW - 60, NOW - 25),)
    devices = [
        device("n", "g0", idle=0.5, busy=busy),
        device("n", "g1", idle=0.42, busy=other),
        device("n", "g2", idle=0.5, busy=busy),
    ]
    found = outcome(run(node("n", *devices), job("j", devices=2)), "j")
    assert found.placement is not None
    assert found.placement.devices == ("g0", "g2")


def test_an_explanation_is_bounded_and_holds_the_choice() -> None:
    nodes = [
        node(f"n{i:03}", device(f"n{i:03}", idle=0.9, memory=3 * GIB, online_memory=2 * GIB + 1)) for i in range(40)
    ]
    last = node("z", device("z", idle=0.2))
    found = outcome(run(*nodes, last, job("j")), "j")
    assert found.placement is not None
    assert found.placement.node == "z"
    assert found.chosen
    assert [entry.node for entry in found.candidates] == ["z"]
    refused = outcome(run(*nodes, last, job("j", sla=0.5)), "j")
    assert not refused.chosen
    assert len(refused.candidates) == 16


def test_the_next_best_place_is_told_beside_the_chosen_one() -> None:
    nodes = [node(name, device(name, idle=idle)) for name, idle in (("a", 0.3), ("b", 0.9), ("c", 0.6))]
    found = outcome(run(*nodes, job("j")), "j")
    assert found.chosen
    assert [(entry.node, entry.gain) for entry in found.candidates] == [("b", 0.9), ("c", 0.6)]


def test_a_refused_shape_is_refused_again_without_another_search() -> None:
    decision = run(node("n", slots=0), *[job(f"j{i}") for i in range(5)])
    messages = {entry.message for entry in decision.outcomes}
    assert len(messages) == 1


def test_a_job_that_is_wider_than_every_node_is_told_so_at_once() -> None:
    two = node("b", device("b", "g0"), device("b", "g1"))
    found = outcome(run(node("a"), two, job("j", devices=3)), "j")
    assert found.message == "it can never fit: spec.devices is 3, the node with most, b, has 2"
    assert outcome(run(node("a"), two, job("j", devices=2)), "j").action is Action.PLACE


def test_of_two_devices_that_a_report_gives_one_id_the_last_counts() -> None:
    found = outcome(run(node("n", device("n", idle=0.9), device("n", idle=0.2)), job("j")), "j")
    assert [(entry.devices, entry.gain) for entry in found.candidates] == [(("cpu0",), 0.2)]


@pytest.mark.parametrize("devices", [1, 2])
def test_a_device_whose_idle_fraction_is_no_number_takes_nobody(devices: int) -> None:
    ids = [f"g{number}" for number in range(devices)]
    broken = node("a", *(device("a", id_, idle=float("nan")) for id_ in ids))
    sound = node("b", *(device("b", id_, idle=0.2) for id_ in ids))
    found = outcome(run(broken, sound, job("j", devices=devices)), "j")
    assert found.placement is not None
    assert found.placement.node == "b"
    assert outcome(run(broken, job("j", devices=devices)), "j").action is Action.WAIT


def test_ten_thousand_identical_jobs_share_one_refusal() -> None:
    decision = run(node("n", slots=1), *(job(f"j{number}") for number in range(10_000)))
    actions = [found.action for found in decision.outcomes]
    assert (actions.count(Action.PLACE), actions.count(Action.WAIT)) == (1, 9_999)
    assert len({id(found.candidates) for found in decision.outcomes}) == 2


def test_a_node_that_vanishes_takes_its_claims_along() -> None:
    held = placed(job("a"), "gone")
    decision = run(node("n"), held, job("j"))
    assert outcome(decision, "j").action is Action.PLACE


def test_nobody_is_placed_without_reports() -> None:
    assert outcome(run(job("j")), "j").message == "no node reports a harvested device"


def test_jobs_that_are_held_are_not_placed() -> None:
    held = [job("s", suspended=True), job("f", finished=True), job("d", deleting=True)]
    decision = run(node("n"), *held)
    assert {entry.job.name: (entry.action, entry.message) for entry in decision.outcomes} == {
        "s": (Action.HOLD, "spec.suspend is set"),
        "f": (Action.HOLD, "the job has finished"),
        "d": (Action.HOLD, "the job is being deleted"),
    }
    assert run(node("n"), replace(held[0], suspended=False)).outcomes[0].action is Action.PLACE


@pytest.mark.parametrize(
    ("generation", "reason", "assigned", "decided"),
    [
        (1, "Finished", False, False),
        (2, "Finished", False, True),
        (1, "Waiting", False, True),
        (1, "Finished", True, True),
    ],
)
def test_a_job_that_is_told_to_have_finished_is_not_decided_on_again(
    generation: int, reason: str, assigned: bool, decided: bool
) -> None:
    told = set_condition([], "Placed", "False", reason, "", generation=1, now="2026-01-01T00:00:00Z")
    view = job("f", finished=True, generation=generation)
    view = placed(view, "n") if assigned else view
    view = replace(view, status=view.status.model_copy(update={"conditions": [told]}))
    assert bool(run(node("n"), view).outcomes) == decided


TAINT = Taint("dedicated", "db", "NoSchedule")
TOLERANT = constraints_of({"spec": {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}})
IN_A = constraints_of({"spec": {"nodeSelector": {"zone": "a"}}})


@pytest.mark.parametrize("devices", [1, 2])
def test_a_node_where_the_pod_cannot_run_is_passed_over(devices: int) -> None:
    ids = [f"g{number}" for number in range(devices)]
    tainted = node("best", *(device("best", id_, idle=0.9) for id_ in ids), taints=(TAINT,))
    other = node("other", *(device("other", id_, idle=0.3) for id_ in ids))
    found = outcome(run(tainted, other, job("j", devices=devices)), "j")
    assert found.placement is not None
    assert found.placement.node == "other"
    refused = outcome(run(tainted, other, job("j", devices=devices, sla=0.5)), "j")
    told = refused.candidates[-1]
    assert (told.node, told.devices) == ("best", tuple(ids))
    assert told.refusal == "taint dedicated=db:NoSchedule is not tolerated"
    assert told.prediction.fraction == pytest.approx(0.9)
    tolerant = outcome(run(tainted, other, job("j", devices=devices, constraints=TOLERANT)), "j")
    assert tolerant.placement is not None
    assert tolerant.placement.node == "best"


@pytest.mark.parametrize("devices", [1, 2])
def test_a_place_behind_many_excluded_nodes_is_found(devices: int) -> None:
    ids = [f"g{number}" for number in range(devices)]
    nodes = [
        node(f"n{i:02}", *(device(f"n{i:02}", id_, idle=0.9) for id_ in ids), labels={"zone": "b"}) for i in range(40)
    ]
    last = node("z", *(device("z", id_, idle=0.1) for id_ in ids), labels={"zone": "a"})
    found = outcome(run(*nodes, last, job("j", devices=devices, constraints=IN_A)), "j")
    assert found.placement is not None
    assert found.placement.node == "z"
    assert found.chosen
    assert [entry.node for entry in found.candidates] == ["z"]


def test_excluded_nodes_are_told_behind_the_others_and_before_closed_devices() -> None:
    world = [
        node("a", device("a", idle=0.9), taints=(TAINT,)),
        node("b", device("b", idle=0.1)),
        node("c", device("c", idle=0.9), schedulable=False, taints=(TAINT,)),
    ]
    found = outcome(run(*world, job("j", sla=0.5)), "j")
    assert [entry.node for entry in found.candidates] == ["b", "a", "c"]
    assert found.message.startswith("no candidate holds: b/cpu0: idle 0.10 < SLA")
    assert found.candidates[2].refusal == "node is cordoned"


def test_an_excluded_node_is_told_before_its_backoff() -> None:
    history = History(backoffs={("uid-j", "n"): Backoff(1, NOW + 60, "NotStarted")})
    found = outcome(run(node("n", taints=(TAINT,)), job("j"), history=history), "j")
    assert found.message == "no candidate holds: n/cpu0: taint dedicated=db:NoSchedule is not tolerated"


def test_nodes_are_looked_at_once_for_all_jobs_with_the_same_constraints(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, met = [], Eligible._met

    def counted(self: Eligible, constraints: Constraints) -> Flags:
        asked.append(constraints)
        return met(self, constraints)

    monkeypatch.setattr(Eligible, "_met", counted)
    nodes = [node(name, taints=(TAINT,)) for name in "abc"]
    singles = [job(f"s{i}", memory=GIB + i) for i in range(4)]
    tolerant = [job(f"t{i}", memory=GIB + i, constraints=TOLERANT) for i in range(4)]
    run(*nodes, *singles, *tolerant)
    assert sorted(asked, key=lambda one: one == TOLERANT) == [Constraints(), TOLERANT]


@pytest.mark.parametrize(
    "refused",
    [
        job("a", memory=7 * GIB),
        job("a", devices=2),
        job("a", sla=0.9),
        job("a", constraints=IN_A),
    ],
)
def test_a_refusal_is_no_answer_for_another_shape(refused: JobView) -> None:
    decision = run(node("n"), refused, job("b"))
    assert outcome(decision, "a").action is Action.WAIT
    assert outcome(decision, "b").action is Action.PLACE


def test_a_pod_on_a_node_that_is_gone_holds_nothing() -> None:
    assert outcome(run(node("n"), pod(job("old"), "gone"), job("j")), "j").action is Action.PLACE


def test_an_assignment_has_an_id_of_its_own() -> None:
    ids = set()
    for name, now in (("a", NOW), ("b", NOW), ("a", NOW + 1e-3)):
        found = outcome(run(node("n"), job(name), now=now), name)
        assert found.placement is not None
        ids.add(found.placement.id)
    assert {len(id_) for id_ in ids} == {16}
    assert len(ids) == 3

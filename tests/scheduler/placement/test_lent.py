"""Memory of the pool in a placement: values worked out by hand."""

from dataclasses import replace
from typing import Any

import pytest
from scheduler.builders import GIB, NOW, device, job, node, outcome, placed, pod, run, tenant

from rowen.crds.common import Condition
from rowen.crds.job.offline_job_status import OfflineJobStatus
from rowen.scheduler.decision import Action
from rowen.scheduler.device import DeviceView
from rowen.scheduler.history import History, Track
from rowen.scheduler.model.evidence import MemoryEvidence
from rowen.scheduler.model.memory import linear_need
from rowen.scheduler.model.profile import PredictionError, Profile
from rowen.scheduler.placement.fleet import forecast
from rowen.scheduler.placement.search.request import Candidate
from rowen.scheduler.snapshot import JobView

EXACT = History(errors={"class": PredictionError(0.0, 0.0)})
"""A predictor that is always right: the margin is the least one, 2 %."""


def pooled(name: str, want: int = 4, doubt: float = 0.0, memory: int = 0, **fields: Any) -> JobView:
    """A job that is as fast as the part of so many GiB that it has, with next to nothing for itself."""
    return job(name, pool=want * GIB, need=linear_need(want * GIB, doubt=doubt), memory=memory, **fields)


def slim(name: str, **fields: Any) -> JobView:
    """A job without memory of the pool, and with next to nothing for itself."""
    return job(name, memory=0, **fields)


def lending(name: str, *available: int, id_: str = "cpu0", **fields: Any) -> DeviceView:
    """A device whose pool had so many GiB left for offline work, each for an equal part of the time."""
    return device(name, id_, available=tuple(amount * GIB for amount in available), **fields)


def best(*parts: Any, history: History | None = None) -> Candidate:
    return outcome(run(*parts, history=history), "j").candidates[0]


def test_memory_is_a_factor_of_the_prediction() -> None:
    """M = (1/4 + 2/4 + 4/4 + 4/4) / 4 = 0.6875."""
    found = outcome(run(node("n", lending("n", 1, 2, 4, 8)), pooled("j")), "j")
    assert found.placement is not None
    assert found.placement.predicted == pytest.approx(0.8 * 0.6875)
    assert "predicted 0.55 of its throughput alone (idle 0.80 x memory 0.69 x sharing 1.00)" in found.message


def test_the_place_with_more_of_both_is_taken() -> None:
    """0.9 x 1/4 against 0.5 x 4/4."""
    idle, roomy = node("idle", lending("idle", 1, idle=0.9)), node("roomy", lending("roomy", 4, idle=0.5))
    assert best(idle, roomy, pooled("j")).node == "roomy"
    assert best(idle, roomy, job("j")).node == "idle"


def test_tenants_share_the_pool_equally() -> None:
    """The newcomer gets half of 4 GiB for half of the time, as its neighbour does from then on."""
    found = best(node("n", lending("n", 4)), placed(pooled("a", 2), "n"), pooled("j"))
    assert found.prediction.memory == pytest.approx(0.5)
    assert found.prediction.fraction == pytest.approx(0.8 * 0.5 * 0.5)
    # It loses half of its time, and no memory that it wants: 0.8 x 1/2 go, 0.2 come.
    assert found.refusal == "would lower the total by 0.20 devices: ns/a would fall from 0.80 to 0.40"


@pytest.mark.parametrize(
    ("available", "told"),
    [
        ((4, 4), None),
        # Exactly half of what it wants, on average.
        ((0, 4), None),
        ((1, 2), "with what the pool lends it now it makes less than half of its throughput"),
        ((0,) * 7 + (2,), "with what the pool lends it now it makes less than half of its throughput"),
        (
            (0, 0, 0, 0, 0, 0, 0, 1),
            "the pool lends it next to nothing now, so it may stand still until others need less",
        ),
    ],
)
def test_a_job_that_has_its_place_and_little_memory_says_so(available: tuple[int, ...], told: str | None) -> None:
    """0.05 of 4 GiB over eight parts of the time: 2 GiB in one of them are 1/16, 1 GiB is 1/32."""
    found = outcome(run(node("n", lending("n", *available)), placed(pooled("j"), "n")), "j")
    assert found.action is Action.KEEP
    assert found.message.partition("; memory is short: ")[2] == (told or "")
    # Of one without a part of the pool, nothing is said.
    slight = outcome(run(node("n", lending("n", *available)), placed(slim("j"), "n")), "j")
    assert "memory is short" not in slight.message


@pytest.mark.parametrize(
    ("assignment", "speed", "told"),
    [
        ("id-j", 0.9, ""),
        ("id-j", 0.4, "with what the pool lends it now it makes less than half of its throughput"),
        ("id-j", 0.04, "the pool lends it next to nothing now, so it may stand still until others need less"),
        ("id-j", None, "the pool lends it next to nothing now, so it may stand still until others need less"),
        ("an earlier one", 0.9, "the pool lends it next to nothing now, so it may stand still until others need less"),
    ],
)
def test_a_job_that_was_measured_to_make_more_is_not_told_to_be_short(
    assignment: str, speed: float | None, told: str
) -> None:
    """By its curve nothing is to be had; what it made in its time on this place decides."""
    track = Track(assignment, "ns/j-1", "class", ("cpu",), 0.0, NOW, 0, 0.0, speed=speed)
    history = replace(EXACT, tracks={"uid-j": track})
    found = outcome(run(node("n", lending("n", 0)), placed(pooled("j"), "n"), history=history), "j")
    assert found.message.partition("; memory is short: ")[2] == told


@pytest.mark.parametrize(
    ("amount", "before", "words"),
    # M is a part of 400: the words of less than a half stay below 0.55, and those of a twentieth below 0.10.
    [
        (200, "", ""), (199, "", "half"), (219, "half", "half"), (220, "half", ""), (219, "", ""), (219, "nothing", ""),
        (20, "", "half"), (19, "", "nothing"), (39, "nothing", "nothing"), (40, "nothing", "half"),
        (39, "half", "half"), (19, "half", "nothing"),
    ],
)  # fmt: skip
def test_words_of_little_memory_do_not_come_and_go_with_each_report(amount: int, before: str, words: str) -> None:
    told = {"": "", "half": "less than half of its throughput", "nothing": "next to nothing now"}

    def message(amount: int, view: JobView) -> str:
        return outcome(run(node("n", device("n", available=(amount,))), view), "j").message

    view = placed(job("j", memory=0, pool=400, need=linear_need(400)), "n")
    said = message({"": 400, "half": 180, "nothing": 0}[before], view)
    assert told[before] in said
    condition = Condition(
        type="Placed", status="True", reason="Placed", message=said, last_transition_time="2026-01-01T00:00:00Z"
    )
    again = message(amount, replace(view, status=OfflineJobStatus(conditions=[condition])))
    assert again.partition("; memory is short: ")[2] == "" if not words else told[words] in again


def test_memory_that_a_newcomer_takes_breaks_a_neighbours_promise() -> None:
    """Alone 0.8 x 4/4; beside another 0.8 x 1/2 x 2/4 = 0.2, with enough time for 0.3 by itself."""
    first = placed(pooled("a", sla=0.3), "n")
    found = best(node("n", lending("n", 4)), first, slim("j", priority=9), history=EXACT)
    assert found.refusal == "ns/a would fall to 0.20 < its SLA with margin 0.33"
    free = placed(job("a", sla=0.3), "n")
    assert best(node("n", lending("n", 4)), free, job("j", priority=9), history=EXACT).refusal == ""


def test_the_smallest_factor_is_named_with_what_would_change_it() -> None:
    told = outcome(run(node("n", lending("n", 1, 1)), pooled("j", sla=0.3), history=EXACT), "j").message
    assert told == (
        "no candidate holds: n/cpu0: memory 0.25 x idle 0.80 = 0.20 < SLA 0.30 + margin 0.01; of the pool of cpu0 it "
        "gets 1.00Gi on average and wants 4.00Gi: less spec.memoryLimit wants less"
    )
    idle = outcome(run(node("n", lending("n", 2, idle=0.4)), pooled("j", sla=0.3), history=EXACT), "j").message
    assert idle == (
        "no candidate holds: n/cpu0: idle 0.40 x memory 0.50 = 0.20 < SLA 0.30 + margin 0.01; up to 0.19 can be "
        "promised here"
    )


def test_a_pool_that_lends_nothing_is_told_so() -> None:
    found = outcome(run(node("n", lending("n", 0)), pooled("j")), "j")
    assert found.action is Action.WAIT
    assert "n/cpu0: memory 0.000: nothing to harvest; of the pool of cpu0 it gets 0.00Gi" in found.message


def test_where_memory_does_not_change_its_owner_it_costs_nothing() -> None:
    assert best(node("n"), pooled("j")).prediction.memory == 1.0
    assert best(node("n"), pooled("j", doubt=0.5)).prediction.uncertainty == 0.0
    assert best(node("n", lending("n", 1)), job("j")).prediction.memory == 1.0


@pytest.mark.parametrize(("sla", "action"), [(0.4, Action.PLACE), (0.41, Action.WAIT)])
def test_what_is_not_known_of_the_curve_is_in_the_margin(sla: float, action: Action) -> None:
    """M = 0.8 with a doubt of 0.5 x 0.2 / 0.8 = 0.125, so b = 0.25; the prediction is 0.675 x 0.8 = 0.54.

    SLA + SLA x 0.25 / 0.75 is 0.533 for 0.4, and 0.547 for 0.41.
    """
    found = outcome(run(node("n", lending("n", 4, idle=0.675)), pooled("j", 5, 0.5, sla=sla), history=EXACT), "j")
    assert found.action is action


def test_a_job_in_lockstep_has_the_memory_of_its_tightest_device() -> None:
    """1/4 on g1, and its neighbour on g0 takes half of 4 there: 2/4."""
    devices = [lending("n", 4, id_="g0"), lending("n", 1, id_="g1")]
    found = best(node("n", *devices), pooled("j", devices=2))
    assert found.prediction.memory == pytest.approx(0.25)
    assert found.gain == pytest.approx(2 * 0.8 * 0.25)


def test_a_job_with_all_the_memory_it_wants_is_as_sure_as_one_without_any() -> None:
    """SLA 0.75 with the least margin is 0.765 of 0.8; the 5 % of a shared device would be 0.83."""
    assert outcome(run(node("n", lending("n", 8)), pooled("j", sla=0.75), history=EXACT), "j").action is Action.PLACE


@pytest.mark.parametrize("first", [0, 1])
def test_a_job_in_lockstep_is_as_unsure_as_the_device_of_which_least_is_known(first: int) -> None:
    """Idle 0.8 ± 0.08 on one, ± 0.04 on the other: 0.1. With 2 of 4 GiB on one a doubt of 0.5 x 0.5 / 0.5 more."""
    deviations = [0.08, 0.04] if first == 0 else [0.04, 0.08]
    devices = [lending("n", 4, id_=f"g{at}", deviation=deviation) for at, deviation in enumerate(deviations)]
    found = best(node("n", *devices), pooled("j", devices=2, doubt=0.5))
    assert found.prediction.uncertainty == pytest.approx(0.1)
    devices = [lending("n", 2 if at == first else 4, id_=f"g{at}") for at in range(2)]
    assert best(node("n", *devices), pooled("j", devices=2, doubt=0.5)).prediction.uncertainty == pytest.approx(0.5)


def test_sets_go_by_memory_too() -> None:
    """Of three devices the two with memory, though the third is idler; and the node that gives most."""
    devices = [lending("n", 4, id_="g0"), lending("n", 0, id_="g1", idle=0.9), lending("n", 4, id_="g2")]
    dry = [lending("a", 1, id_=f"g{number}", idle=1.0) for number in range(2)]
    found = best(node("a", *dry), node("n", *devices), pooled("j", devices=2))
    assert (found.node, found.devices) == ("n", ("g0", "g2"))


def test_what_was_learned_of_a_class_counts_on_its_type_of_device() -> None:
    """Full speed at a quarter of what it wants, seen for an hour."""
    seen = MemoryEvidence().updated((1.0, 1.0, 0.0, 0.0, 0.0), 100.0, 3600.0)
    known = History(profiles={("class", "cpu"): Profile(100.0, 600.0, NOW, memory=seen)})
    parts = node("n", lending("n", 1)), pooled("j", doubt=0.5)
    assert best(*parts).prediction.memory == pytest.approx(0.25)
    assert best(*parts, history=known).prediction.memory > 0.95


def test_two_jobs_that_differ_in_what_they_want_are_not_refused_alike() -> None:
    """The first finds nothing; the second wants less of the same pool."""
    decision = run(node("n", lending("n", 1)), pooled("a", 8, sla=0.3), pooled("b", 1, sla=0.3), history=EXACT)
    assert outcome(decision, "a").action is Action.WAIT
    assert outcome(decision, "b").action is Action.PLACE


def test_jobs_that_are_alike_have_one_appetite() -> None:
    first, second, other = pooled("a"), pooled("b"), pooled("c", memory=2 * GIB)
    assert EXACT.appetite(first) is EXACT.appetite(second)
    assert EXACT.appetite(other) is not EXACT.appetite(first)
    assert EXACT.appetite(job("d")) is None


def test_a_device_that_cannot_give_all_is_wanted_whole() -> None:
    """Of 3 GiB a job with 1 GiB for itself can have 2 at most: with them it is as fast as it can be there."""
    small = lending("n", 3, memory=3 * GIB, online_memory=GIB)
    assert best(node("n", small), pooled("j", memory=GIB)).prediction.memory == 1.0


BIG = {"memory": 80 * GIB, "online_memory": 60 * GIB, "idle": 0.9}
"""A device with room for 20 GiB of jobs' own memory."""


def test_a_newcomers_own_memory_comes_off_what_it_is_lent() -> None:
    """18 of 20 GiB are its own, 2 of the 10 that it wants are left: 0.9 x 0.2. A report that knows it says 2."""
    wants = pooled("j", 10, memory=18 * GIB)
    assert best(node("n", lending("n", 20, **BIG)), wants).prediction.fraction == pytest.approx(0.18)
    short = outcome(run(node("n", lending("n", 20, **BIG)), replace(wants, sla=0.7)), "j")
    assert short.action is Action.WAIT
    assert "of the pool of cpu0 it gets 2.00Gi on average and wants 10.00Gi" in short.message
    held = placed(wants, "n")
    known = node("n", lending("n", 2, tenants=(tenant(held),), **BIG))
    for parts in ((known, held, pod(held, "n")), (node("n", lending("n", 20, **BIG)), held, pod(held, "n"))):
        assert outcome(run(*parts), "j").fraction == pytest.approx(0.18)


@pytest.mark.parametrize("devices", [1, 2])
def test_a_newcomers_own_memory_comes_off_what_its_neighbours_are_lent(devices: int) -> None:
    """Of 16 GiB 15 go: half of the last one is an eighth of what `a` wants, 0.9 x 1/2 x 1/8 = 0.056."""
    ids = [f"g{number}" for number in range(devices)]
    held = placed(pooled("a", memory=GIB, sla=0.3, devices=devices), "n", *ids)
    known = node("n", *(lending("n", 16, id_=id_, tenants=(tenant(held),), **BIG) for id_ in ids))
    parts = known, held, pod(held, "n", *ids)
    found = best(*parts, job("j", memory=15 * GIB, devices=devices), history=EXACT)
    assert found.refusal == "ns/a would fall to 0.06 < its SLA with margin 0.33"
    assert best(*parts, job("j", memory=8 * GIB, devices=devices), history=EXACT).refusal == ""


def test_a_neighbours_promise_counts_beside_one_that_wants_no_memory_of_the_pool() -> None:
    """With 3 GiB of its own a newcomer leaves `a` a third of 1 of 4, so 0.9 x 1/3 x 1/12: too little for 0.2."""
    held = placed(pooled("a", memory=GIB, sla=0.2), "n"), placed(slim("b"), "n")
    known = node("n", lending("n", 4, tenants=(tenant(held[0]),), **BIG), slots=4)
    parts = *held, pod(held[0], "n")
    roomy = node("n", lending("n", 15, tenants=(tenant(held[0]),), **BIG), slots=4)
    newcomer = job("j", memory=3 * GIB, priority=1)
    assert best(known, *parts, newcomer, history=EXACT).refusal == "ns/a would fall to 0.02 < its SLA with margin 0.22"
    assert best(roomy, *parts, newcomer, history=EXACT).refusal == ""


def test_own_memory_that_the_report_does_not_know_yet_comes_off_for_everybody() -> None:
    """8 lent, 3 of them `a`'s own and 1 the newcomer's: each gets 2 of 4. A pod that is reported is not taken twice."""
    held = placed(pooled("a", memory=3 * GIB), "n")
    unknown = node("n", lending("n", 8)), held, pod(held, "n")
    assert best(*unknown, pooled("j", memory=GIB)).prediction.memory == pytest.approx(0.5)
    known = node("n", lending("n", 5, tenants=(tenant(held),))), held, pod(held, "n")
    assert best(*known, pooled("j", memory=GIB)).prediction.memory == pytest.approx(0.5)
    stranger = replace(pod(held, "n"), job=None, assignment=None)
    assert best(node("n", lending("n", 8)), stranger, pooled("j", memory=GIB)).prediction.memory == pytest.approx(0.5)


@pytest.mark.parametrize(("own", "chosen"), [(0, "a"), (4, "b")])
def test_the_place_is_the_better_one_with_the_newcomers_own_memory(own: int, chosen: str) -> None:
    """On `a` a newcomer of 4 GiB leaves its neighbour 2 of 4: 1.0 x 1/2 x 1/2 instead of 1.0 goes, 0.5 comes."""
    first, second = placed(pooled("x"), "a"), placed(slim("y"), "b")
    nodes = node("a", lending("a", 8, idle=1.0)), node("b", device("b", idle=0.9))
    assert best(*nodes, first, second, job("j", memory=own * GIB)).node == chosen
    some = [node(f"a{i:03}", lending(f"a{i:03}", 8, idle=1.0)) for i in range(40)]
    held = [placed(pooled(f"x{view.name}"), view.name) for view in some]
    assert best(*some, *held, nodes[1], second, job("j", memory=own * GIB)).node[0] == chosen


def test_reports_of_different_lengths_stand_side_by_side() -> None:
    nodes = [node("a", lending("a", 1)), node("b", lending("b", 1, 3)), node("c"), node("d", lending("d", 2, 2, 2))]
    found = {name: best(view, pooled("j")).prediction.memory for name, view in zip("abcd", nodes, strict=True)}
    assert found == {"a": 0.25, "b": 0.5, "c": 1.0, "d": 0.5}
    assert best(*nodes, pooled("j")).node == "c"
    assert best(*(replace(view, slots=0) if view.name == "c" else view for view in nodes), pooled("j")).node == "b"


def test_help_names_the_device_whose_memory_is_short() -> None:
    """g0's memory does not change its owner, so M is 1 there; of g1 it gets a quarter of what it wants."""
    devices = device("n", "g0", available=(), idle=0.9), lending("n", 1, id_="g1", idle=0.9)
    refusal = best(node("n", *devices, slots=4), pooled("j", devices=2, sla=0.5), history=EXACT).refusal
    assert "; of the pool of g1 it gets 1.00Gi on average and wants 4.00Gi" in refusal


def test_no_help_is_told_where_nothing_is_short() -> None:
    refusal = best(node("n", device("n", idle=1.0)), pooled("j", sla=1.0), history=EXACT).refusal
    assert refusal.startswith("idle 1.00 < SLA 1.00")
    assert "pool" not in refusal


def test_of_a_report_that_stays_not_every_answer_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "_KEPT", 3)
    view = node("n", lending("n", 1))
    assert [best(view, pooled("j", want)).prediction.memory for want in (1, 2, 4, 5, 8)] == pytest.approx(
        [1.0, 0.5, 0.25, 0.2, 0.125]
    )
    assert 0 < len(view.lent) <= 3

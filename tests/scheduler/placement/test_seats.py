"""Where jobs ride: who gets a seat in an engine, and why not."""

from dataclasses import replace
from typing import Any

import pytest
from scheduler.builders import GIB, NOW, POLICY, device, job, node, outcome, placed, pod, run, running, world

from rowen.crds.job.batch_inference import BatchInference
from rowen.scheduler.decision import Action, decide
from rowen.scheduler.device import DeviceView, EngineView
from rowen.scheduler.history import History
from rowen.scheduler.model.profile import PredictionError, Profile
from rowen.scheduler.model.rider import Rider, Served
from rowen.scheduler.monitor.backoff import Backoff
from rowen.scheduler.placement.constraints import Constraints, Requirement
from rowen.scheduler.placement.search.choice import Page
from rowen.scheduler.placement.spread_rules import SpreadRule
from rowen.scheduler.serve import whatif
from rowen.scheduler.serve.sight import Sight
from rowen.scheduler.serve.telling import Teller
from rowen.scheduler.snapshot import JobView

MODEL = "models/tiny"
BATCH = BatchInference.from_wire(
    {
        "model": {"claimName": "models", "path": "tiny"},
        "input": {"claimName": "data", "path": "in"},
        "output": {"claimName": "data", "path": "out"},
    }
)


def engine(name: str, id_: str = "cpu0", *, model: str = MODEL, namespace: str = "ns", **fields: Any) -> DeviceView:
    """A device in whose engine jobs ride."""
    seats, ended, args = fields.pop("seats", 8), fields.pop("ended", ""), fields.pop("args", ())
    view = EngineView(Served(namespace, model, tuple(args)), seats, ended, fields.pop("ridden", False))
    return device(name, id_, engine=view, **fields)


def rider(name: str, obstacle: str = "", **fields: Any) -> JobView:
    """A job that can be computed in engines that serve the model."""
    return job(name, rider=fields.pop("rider", Rider(MODEL, obstacle)), **fields)


def seated(view: JobView, node_name: str = "a", *devices: str, **fields: Any) -> JobView:
    return placed(view, node_name, *devices, rides=True, **fields)


def waits(decision: Any, name: str) -> str:
    found = outcome(decision, name)
    assert found.action is Action.WAIT
    return found.message


def test_a_job_of_the_served_model_rides() -> None:
    found = outcome(run(node("a", engine("a")), rider("j")), "j")
    assert found.placement is not None
    assert found.placement.rides
    assert (found.placement.node, found.placement.devices, found.placement.tenants) == ("a", ("cpu0",), 1)
    # A busy engine has something to spare, too.
    assert found.placement.predicted == pytest.approx(0.8 + 0.1 * 0.2)
    assert found.message == (
        "placed on a/cpu0, in its engine (CoServe): predicted 0.82 of its throughput alone (engine 0.82 x sharing 1.00)"
    )
    assert found.candidates[0].rides


def test_a_job_of_which_nothing_is_known_runs_by_itself_and_hears_nothing_of_engines() -> None:
    found = outcome(run(node("a", engine("a")), job("j")), "j")
    assert found.placement is not None
    assert not found.placement.rides
    assert "engine" not in found.message


def test_without_engines_nobody_speaks_of_them() -> None:
    found = outcome(run(node("a"), rider("j", "lora.dropout above 0")), "j")
    assert found.placement is not None
    assert "engine" not in found.message


@pytest.mark.parametrize(
    ("view", "told"),
    [
        (rider("j", "lora.dropout above 0"), "lora.dropout above 0"),
        (rider("j", rider=Rider("models/other")), "no engine that takes jobs in serves its model"),
        (
            replace(rider("j"), status=rider("j").status.model_copy(update={"ride_refused": "other weights"})),
            "it rides no more: other weights",
        ),
        (
            rider("j", rider=Rider(MODEL, batch=BATCH.model_copy(update={"args": ["--max-model-len=64"]}))),
            "args: --max-model-len, which the engine has not",
        ),
    ],
)
def test_one_that_cannot_ride_runs_by_itself_and_is_told_why(view: JobView, told: str) -> None:
    found = outcome(run(node("a", engine("a")), view), "j")
    assert found.placement is not None
    assert not found.placement.rides
    assert found.message.endswith(f"; not in an engine (CoServe): {told}")


@pytest.mark.parametrize(
    ("there", "told"),
    [
        (engine("a", seats=0), "its engine takes no jobs in yet"),
        (engine("a", ended="out of memory"), "nothing rides in its engine any more: out of memory"),
    ],
)
def test_an_engine_that_takes_nobody_in_is_harvested_as_others_are(there: DeviceView, told: str) -> None:
    found = outcome(run(node("a", there), rider("j")), "j")
    assert found.placement is not None
    assert not found.placement.rides
    assert found.message.endswith(f"; not in an engine (CoServe): a/cpu0: {told}")


def test_nobody_gets_a_place_beside_an_engine_that_is_awaited() -> None:
    """It would keep the place, and keep riders out of an engine that takes them in a moment later."""
    there = engine("a", seats=0, awaited="its engine has not told yet")
    others = (rider("j"), rider("k", "lora.dropout above 0"), job("t"))
    decision = run(node("a", there), *others)
    for one in others:
        assert "a/cpu0: its engine has not told yet" in waits(decision, one.name)
    # It is in nobody's way on a device beside it, and as soon as it has told who can ride rides.
    found = outcome(run(node("a", there, device("a", "cpu1")), rider("j")), "j").placement
    assert found is not None
    assert (found.devices, found.rides) == (("cpu1",), False)
    told = outcome(run(node("a", engine("a")), *others), "j").placement
    assert told is not None
    assert told.rides


@pytest.mark.parametrize("there", [placed(job("j"), "a"), seated(rider("j"))])
def test_who_is_there_already_stays_with_an_engine_that_is_awaited(there: JobView) -> None:
    awaited = engine("a", awaited="its engine has not told yet")
    assert outcome(run(*running(node("a", awaited), there)), "j").action is Action.KEEP


def test_engines_of_other_namespaces_do_not_see_its_data() -> None:
    found = outcome(run(node("a", engine("a", namespace="theirs")), rider("j")), "j")
    assert found.placement is not None
    assert not found.placement.rides
    both = run(node("a", engine("a", namespace="theirs"), engine("a", "cpu1")), rider("j"))
    assert outcome(both, "j").placement.devices == ("cpu1",)  # type: ignore[union-attr]


def test_rows_ride_where_the_engine_has_their_arguments() -> None:
    batch = BATCH.model_copy(update={"args": ["--max-model-len=64"]})
    there = [engine("a"), engine("a", "cpu1", idle=0.5, args=["--max-model-len=64"])]
    found = outcome(run(node("a", *there), rider("j", rider=Rider(MODEL, batch=batch))), "j")
    assert found.placement is not None
    assert (found.placement.rides, found.placement.devices) == (True, ("cpu1",))


def test_why_the_suited_engine_has_no_seat_is_told_where_another_has_one() -> None:
    batch = BATCH.model_copy(update={"args": ["--max-model-len=64"]})
    there = [engine("a"), engine("a", "cpu1", seats=1, args=["--max-model-len=64"])]
    parts = running(node("a", *there), seated(rider("r"), "a", "cpu1"))
    found = outcome(run(*parts, rider("j", rider=Rider(MODEL, batch=batch))), "j")
    assert found.message.endswith("; not in an engine (CoServe): a/cpu1: no free seat (1 taken)")


@pytest.mark.parametrize("away", [False, True])
def test_what_keeps_a_job_out_is_told_before_what_passes(away: bool) -> None:
    there = engine("a", seats=0 if away else 1, args=["--dtype=bfloat16"])
    parts = [node("a", there)] if away else running(node("a", there), seated(rider("r"), "a"))
    found = outcome(run(*parts, rider("j", rider=Rider(MODEL, precision="Float32"))), "j")
    assert found.message.endswith("(CoServe): precision Float32, and the engine's --dtype bfloat16")


def test_that_there_is_no_seat_is_told_of_an_engine_that_suits() -> None:
    there = [engine("a", ended="out of memory", args=["--dtype=bfloat16"]), engine("a", "cpu1", seats=1)]
    parts = running(node("a", *there), seated(rider("r"), "a", "cpu1"))
    found = outcome(run(*parts, rider("j", rider=Rider(MODEL, precision="Float32"))), "j")
    assert found.message.endswith("(CoServe): a/cpu1: no free seat (1 taken)")


def test_the_engine_that_gives_most_comes_first_and_riders_have_equal_parts() -> None:
    there = node("a", engine("a", idle=0.5), engine("a", "cpu1", idle=0.9))
    decision = run(there, *(rider(name, created=at) for at, name in enumerate("abc")))
    places = [outcome(decision, name).placement for name in "abc"]
    assert [place.devices for place in places if place] == [("cpu1",), ("cpu0",), ("cpu1",)]
    assert [place.predicted for place in places if place] == pytest.approx([0.91, 0.55, 0.455])
    assert [place.tenants for place in places if place] == [1, 1, 2]


def test_no_more_ride_than_there_are_seats() -> None:
    riders = [seated(rider(f"r{number}")) for number in range(2)]
    decision = run(*running(node("a", engine("a", seats=2)), *riders), rider("j"))
    assert "jobs ride in the engine of cpu0: none runs beside it meanwhile" in waits(decision, "j")
    assert waits(decision, "j").endswith("not in an engine (CoServe): a/cpu0: no free seat (2 taken)")


def test_nobody_runs_beside_those_who_ride() -> None:
    there = node("a", engine("a"), device("a", "cpu1", idle=0.2))
    parts = running(there, seated(rider("r")))
    found = outcome(run(*parts, job("j")), "j")
    assert found.placement is not None
    assert found.placement.devices == ("cpu1",)


def test_nobody_rides_beside_those_who_run() -> None:
    parts = running(node("a", engine("a")), placed(job("own"), "a"))
    found = outcome(run(*parts, rider("j")), "j")
    assert found.placement is not None
    assert not found.placement.rides
    assert found.message.endswith("; not in an engine (CoServe): a/cpu0: a job runs beside its engine")


def test_within_a_pass_the_older_job_decides_how_a_device_is_shared() -> None:
    first_rides = run(node("a", engine("a")), rider("r", created=1.0), job("own", created=2.0))
    assert outcome(first_rides, "r").placement.rides  # type: ignore[union-attr]
    assert outcome(first_rides, "own").placement is None
    first_runs = run(node("a", engine("a")), rider("r", created=2.0), job("own", created=1.0))
    assert not outcome(first_runs, "r").placement.rides  # type: ignore[union-attr]


def test_by_itself_where_that_makes_more_than_twice_as_much() -> None:
    riders = [seated(rider(f"r{number}")) for number in range(2)]
    there = node("a", engine("a"), device("a", "cpu1", idle=0.8))
    found = outcome(run(*running(there, *riders), rider("j")), "j")
    assert found.placement is not None
    assert (found.placement.rides, found.placement.devices) == (False, ("cpu1",))
    assert found.message.endswith("a/cpu0, in its engine (CoServe) would give 0.27 (engine 0.82 x sharing 0.33)")
    slower = node("a", engine("a"), device("a", "cpu1", idle=0.5))
    assert outcome(run(*running(slower, *riders), rider("j")), "j").placement.rides  # type: ignore[union-attr]


def test_a_lone_seat_in_a_busy_engine_is_worth_less_than_an_idle_device() -> None:
    there = node("a", engine("a", idle=0.1), device("a", "cpu1", idle=0.8))
    found = outcome(run(there, rider("j")), "j")
    assert found.placement is not None
    assert (found.placement.rides, found.placement.devices) == (False, ("cpu1",))
    assert found.message.endswith("a/cpu0, in its engine (CoServe) would give 0.19 (engine 0.19 x sharing 1.00)")


def test_a_busy_device_gives_more_in_its_engine_than_beside_it() -> None:
    found = outcome(run(node("a", engine("a", idle=0.0), device("a", "cpu1", idle=0.15)), rider("j")), "j")
    assert found.placement is not None
    assert found.placement.rides


def test_an_sla_is_kept_in_the_engine_or_beside_another() -> None:
    there = node("a", engine("a", idle=0.4), device("a", "cpu1", idle=0.9))
    found = outcome(run(there, rider("j", sla=0.6)), "j")
    assert found.placement is not None
    assert (found.placement.rides, found.placement.devices) == (False, ("cpu1",))
    told = "; not in an engine (CoServe): a/cpu0: engine 0.46 x sharing 1.00 < SLA 0.60 + margin 0.07"
    assert found.message.endswith(told)
    assert outcome(run(there, rider("j", sla=0.4)), "j").placement.rides  # type: ignore[union-attr]


def test_an_sla_is_kept_where_less_is_given_for_sure() -> None:
    there = node("a", engine("a", idle=0.8, deviation=0.3), engine("a", "cpu1", idle=0.6))
    found = outcome(run(there, rider("j", sla=0.5)), "j")
    assert found.placement is not None
    assert (found.placement.rides, found.placement.devices) == (True, ("cpu1",))
    nobody = outcome(run(there, rider("j", sla=0.7)), "j")
    assert "a/cpu0: engine 0.82 x sharing 1.00 < SLA 0.70" in nobody.message


def test_the_type_of_device_that_suits_a_job_comes_first() -> None:
    rates = {("class", "cpu"): Profile(100.0, 600.0, NOW), ("class", "gpu"): Profile(200.0, 600.0, NOW)}
    there = [engine("a", idle=0.8), replace(engine("a", "cpu1", idle=0.6), type="gpu")]
    found = outcome(run(node("a", *there), rider("j"), history=History(rates)), "j")
    assert found.placement is not None
    assert found.placement.devices == ("cpu1",)
    assert (found.candidates[0].rate, found.candidates[0].gain) == (1.0, pytest.approx(0.64))
    slower = outcome(run(node("a", there[0]), rider("j"), history=History(rates)), "j").candidates[0]
    assert (slower.rate, slower.gain) == (0.5, pytest.approx(0.41))
    beside = replace(device("a", "cpu1", idle=0.83), type="gpu")
    copied = outcome(run(node("a", there[0], beside), rider("j"), history=History(rates)), "j")
    assert copied.placement is not None
    assert not copied.placement.rides


def test_what_was_promised_to_riders_is_kept() -> None:
    promised = seated(rider("r", sla=0.5))
    decision = run(*running(node("a", engine("a")), promised), rider("j"))
    assert waits(decision, "j").endswith("a/cpu0: ns/r would fall to 0.41 < its SLA with margin 0.56")


def test_the_error_of_riders_counts_for_riders_alone() -> None:
    error = PredictionError(mean=0.4, variance=0.0, time=NOW)
    there = node("a", engine("a"))
    own = History(errors={"class": error}, time=NOW)
    assert outcome(run(there, rider("j", sla=0.6), history=own), "j").placement.rides  # type: ignore[union-attr]
    of_riders = History(errors={"CoServe|class": error}, time=NOW)
    assert not outcome(run(there, rider("j", sla=0.6), history=of_riders), "j").placement.rides  # type: ignore[union-attr]


def test_one_at_a_time_where_the_guard_says_so() -> None:
    there = node("a", engine("a", restraint="SLO guard: one job at a time"))
    decision = run(there, rider("a", created=1.0), rider("b", created=2.0))
    assert outcome(decision, "a").placement.rides  # type: ignore[union-attr]
    assert waits(decision, "b").endswith("a/cpu0: SLO guard: one job at a time: cpu0 has one")


def test_nothing_rides_where_the_owner_does_not_offer_the_device() -> None:
    decision = run(node("a", engine("a", refusal="SLO guard: nothing of it is harvested")), rider("j"))
    assert waits(decision, "j").endswith("a/cpu0: SLO guard: nothing of it is harvested")


def test_it_needs_no_memory_of_the_device_and_no_slot() -> None:
    full = node("a", engine("a", online_memory=8 * GIB), slots=0)
    found = outcome(run(full, rider("j", memory=64 * GIB)), "j")
    assert found.placement is not None
    assert found.placement.rides


def test_its_pods_constraints_hold() -> None:
    parts = [node("a", engine("a", idle=0.9), labels={"zone": "x"}), node("b", engine("b", idle=0.5))]
    found = outcome(run(*parts, rider("j", constraints=Constraints(node="b"))), "j")
    assert found.placement is not None
    assert (found.placement.rides, found.placement.node) == (True, "b")
    nowhere = outcome(run(parts[0], rider("j", constraints=Constraints(node="b"))), "j")
    assert nowhere.message == "no candidate holds: a/cpu0: nodeName b: the node is a"


def test_what_stands_against_device_and_engine_is_told_once() -> None:
    told = "no candidate holds: a/cpu0: idle 0.00: no online engine attached, so its gate is closed"
    away = node("a", engine("a", attached=False))
    assert waits(run(away, rider("j")), "j") == told
    assert whatif.predict(world(away), History(), rider("j"), NOW, POLICY).refusal == told


def test_who_finds_no_idle_time_after_riders_hears_of_them() -> None:
    left = engine("a", idle=0.0, ridden=True)
    message = waits(run(node("a", left), job("j")), "j")
    assert message.endswith(
        "nothing to harvest; jobs that rode in its engine took of it, too: wait, or a less busy service would change it"
    )


def test_it_rides_where_its_template_would_like_it_if_it_can() -> None:
    rule = SpreadRule("host", (Requirement("app", "In", ("x",)),), must=False)
    alike = {"labels": (("app", "x"),), "spread": (rule,)}
    parts = [node(name, engine(name, idle=idle), labels={"host": name}) for name, idle in (("a", 0.9), ("b", 0.3))]
    there = seated(rider("r", **alike))
    found = outcome(run(*running(*parts, there), rider("j", **alike)), "j")
    assert found.placement is not None
    assert (found.placement.rides, found.placement.node) == (True, "b")
    alone = outcome(run(*running(parts[0], there), rider("j", **alike)), "j")
    assert alone.placement is not None
    assert alone.placement.rides
    indifferent = outcome(run(*running(*parts, there), rider("j")), "j")
    assert indifferent.placement is not None
    assert indifferent.placement.node == "a"


def test_a_node_that_failed_it_is_kept_away_from() -> None:
    history = History(backoffs={("uid-j", "a"): Backoff(1, NOW + 60.0, "NotStarted")})
    parts = [node("a", engine("a", idle=0.9)), node("b", engine("b", idle=0.5))]
    found = outcome(run(*parts, rider("j"), history=history), "j")
    assert found.placement is not None
    assert found.placement.node == "b"
    everywhere = History(backoffs={("uid-j", ""): Backoff(1, NOW + 60.0, "NotStarted")})
    assert outcome(run(*parts, rider("j"), history=everywhere), "j").placement is None


def test_a_rider_keeps_its_place_and_is_told_where() -> None:
    decision = run(*running(node("a", engine("a")), seated(rider("r"), tenants=1), seated(rider("s"), tenants=1)))
    found = outcome(decision, "r")
    assert found.action is Action.KEEP
    assert found.message.startswith("placed on a/cpu0, in its engine (CoServe): predicted 0.80")
    assert found.fraction == pytest.approx(0.41)
    assert found.placement is not None
    assert found.placement.rides


def test_a_pod_on_its_way_out_still_has_its_seat() -> None:
    leaving = replace(pod(rider("gone"), "a"), rides=True, slots=0, memory=0)
    found = outcome(run(*running(node("a", engine("a")), leaving), rider("j")), "j")
    assert found.placement is not None
    assert found.placement.rides
    assert found.placement.tenants == 2


def test_who_is_leaving_is_in_nobodys_way() -> None:
    leaving = replace(pod(job("gone"), "a"), gone_by=NOW + 30.0)
    assert outcome(run(*running(node("a", engine("a")), leaving), rider("j")), "j").placement.rides  # type: ignore[union-attr]
    stranger = outcome(run(*running(node("a", engine("a")), pod(job("other"), "a")), rider("j")), "j")
    assert not stranger.placement.rides  # type: ignore[union-attr]
    deleted = replace(placed(job("gone"), "a"), deleting=True)
    assert outcome(run(*running(node("a", engine("a")), deleted), rider("j")), "j").placement.rides  # type: ignore[union-attr]
    rode = replace(seated(rider("gone")), deleting=True)
    assert outcome(run(*running(node("a", engine("a")), rode), job("j")), "j").placement is not None


@pytest.mark.parametrize("there", [device, engine])
@pytest.mark.parametrize("reported", [True, False])
def test_a_pod_of_another_namespace_is_in_nobodys_way_with_a_seat(there: Any, reported: bool) -> None:
    """No agent lets it in, and it may name every device of its node."""
    other = replace(rider("x"), namespace="theirs")
    stranger = replace(pod(other, "a", "cpu0", "cpu1"), job=None, assignment=None, rides=True, slots=0, memory=0)
    views = node("a", there("a"), there("a", "cpu1"))
    parts = running(views, stranger) if reported else [views, stranger]
    assert outcome(run(*parts, job("j")), "j").placement is not None
    own = [replace(part, namespace="ns") if part is stranger else part for part in parts]
    assert outcome(run(*own, job("j")), "j").placement is None


@pytest.mark.parametrize(("late", "leaves"), [(60.0, True), (61.0, False)])
@pytest.mark.parametrize("deleting", [True, False])
def test_who_hangs_in_its_deletion_is_in_the_way(deleting: bool, late: float, leaves: bool) -> None:
    """Else jobs of both modes would be on a device for as long as that lasts."""
    gone = replace(placed(job("gone"), "a"), deleting=True)
    stuck = replace(pod(gone, "a"), gone_by=NOW - late)
    parts = running(node("a", engine("a")), stuck, *([gone] if deleting else []))
    assert outcome(run(*parts, rider("j")), "j").placement.rides is leaves  # type: ignore[union-attr]
    rode = replace(seated(rider("gone")), deleting=True)
    stuck = replace(stuck, rides=True, slots=0, memory=0)
    parts = running(node("a", engine("a")), stuck, *([rode] if deleting else []))
    assert (outcome(run(*parts, job("j")), "j").placement is not None) is leaves


def test_one_at_a_time_is_one_of_either_mode_also_while_that_leaves() -> None:
    there = node("a", engine("a", restraint="SLO guard: one job at a time"))
    rode, ran = (replace(view, deleting=True) for view in (seated(rider("gone")), placed(job("gone"), "a")))
    told = "SLO guard: one job at a time: cpu0 has one"
    assert told in waits(run(*running(there, rode), job("j")), "j")
    assert waits(run(*running(there, ran), rider("j")), "j").endswith(f"a/cpu0: {told}")
    free = node("a", engine("a"))
    assert outcome(run(*running(free, rode), job("j")), "j").placement is not None


def test_few_jobs_that_could_ride_are_not_planned_together() -> None:
    """Else the plan could give a device away beside its engine, and to riders."""
    parts = [node("a", engine("a", idle=0.9)), node("b", device("b", idle=0.5))]
    decision = run(*parts, rider("r", created=1.0), job("own", created=2.0), job("other", created=3.0))
    assert outcome(decision, "r").placement.rides  # type: ignore[union-attr]
    assert {outcome(decision, name).placement.node for name in ("own", "other")} == {"b"}  # type: ignore[union-attr]


def test_one_that_cannot_have_a_seat_keeps_nobody_from_planning_together() -> None:
    """In the queue's order the first would take what only the second needs."""
    there = [node("a", engine("a", idle=0.0)), node("n", device("n", "g0", idle=0.9), device("n", "g1", idle=0.5))]
    jobs = rider("r", created=1.0), job("easy", created=2.0), job("strict", created=3.0, sla=0.6)
    barred = History(backoffs={("uid-r", ""): Backoff(1, NOW + 60.0, "NotStarted")})
    decision = run(*there, *jobs, history=barred)
    assert outcome(decision, "r").placement is None
    taken = {name: outcome(decision, name).placement.devices for name in ("easy", "strict")}  # type: ignore[union-attr]
    assert taken == {"easy": ("g1",), "strict": ("g0",)}


def test_who_asks_ahead_is_told_of_the_seat_first() -> None:
    snapshot = world(node("a", engine("a"), device("a", "cpu1")))
    prospect = whatif.predict(snapshot, History(), rider("j"), NOW, POLICY)
    assert prospect.refusal == ""
    assert [one.rides for one in prospect.choice.candidates] == [True, False, False]
    pages = [whatif.candidates(snapshot, History(), rider("j"), NOW, POLICY, Page(offset, 1)) for offset in range(4)]
    assert [[one.rides for one in page] for page in pages] == [[True], [False], [False], []]


def test_who_asks_ahead_is_told_why_there_is_no_seat() -> None:
    snapshot = world(node("a", engine("a", idle=0.0)))
    prospect = whatif.predict(snapshot, History(), rider("j", "lora.dropout above 0"), NOW, POLICY)
    assert prospect.refusal.endswith("; not in an engine (CoServe): lora.dropout above 0")


@pytest.mark.parametrize(
    ("asked", "told"), [(rider("j", "lora.dropout above 0"), "lora.dropout above 0"), (rider("j"), None)]
)
def test_who_asks_what_if_is_told_why_a_job_would_not_ride(asked: JobView, told: str | None) -> None:
    snapshot = world(node("a", engine("a")), asked)
    teller = Teller(snapshot, History(), Sight(None))
    (reply,) = teller.decision(decide(snapshot, History(), NOW, POLICY).outcomes, {}).jobs
    assert (reply.action, reply.not_seated) == ("place", told)
    message = teller.prediction(whatif.predict(snapshot, History(), asked, NOW, POLICY), asked).explanation.message
    assert message.endswith("; not in an engine (CoServe): lora.dropout above 0") is bool(told)

"""What is read of engines in which jobs ride, of the jobs and their pods; and what their status says."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from scheduler.builders import NOW, POLICY, node, outcome, run, running, world
from scheduler.placement.test_seats import engine, rider, seated
from scheduler.world.test_facts import STAMP, harvest, one_device, online, pod
from scheduler.world.test_facts import job as job_manifest

from rowen.crds.service.online_service import Engine
from rowen.crds.service.served import served_digest
from rowen.kube.timestamps import rfc3339, unix_seconds
from rowen.scheduler.decision import Action, decide
from rowen.scheduler.device import EngineView
from rowen.scheduler.history import History, Track
from rowen.scheduler.model.profile import Profile
from rowen.scheduler.model.rider import Rider, Served, own_class, ride_class
from rowen.scheduler.monitor.hearing import Hearing
from rowen.scheduler.serve.sight import Sight
from rowen.scheduler.serve.telling import Teller
from rowen.scheduler.snapshot import JobView
from rowen.scheduler.world.assembly import assemble
from rowen.scheduler.world.facts import ServiceFacts, job_view, pod_facts, service_facts
from rowen.scheduler.world.status import wanted

MODEL = {"claimName": "models", "path": "tiny"}
SLO = {"ttft": {"target": "1s"}, "tpot": {"target": "1s"}}
SERVED = Served("ns", "models/tiny", ("--enable-lora",))
TUNE = {"baseModel": MODEL, "dataset": {"claimName": "d", "path": "t"}, "output": {"claimName": "d", "path": "o"}}
ROWS = {"model": MODEL, "input": {"claimName": "d", "path": "t"}, "output": {"claimName": "d", "path": "o"}}


def engine_pod(conditions: Any = (), meta: Mapping[str, Any] | None = None, **changed: Any) -> Any:
    """A pod of the service's engine, or of one that it had."""
    digest = served_digest(Engine.from_wire({"model": MODEL, "args": ["--enable-lora"], **changed}))
    found = pod(
        annotations={"rowen.dev/served": digest}, labels={"app.kubernetes.io/managed-by": "rowen"}, **(meta or {})
    )
    found["status"]["conditions"] = conditions
    return found


def service(**harvest_: Any) -> Any:
    spec = {"slo": SLO, "engine": {"model": MODEL, "args": ["--enable-lora"]}, "harvest": harvest_}
    return service_facts({"metadata": {"namespace": "ns", "name": "chat"}, "spec": spec})


def test_what_a_service_serves_matters_where_jobs_ride() -> None:
    assert service(mode="CoServe").served == SERVED
    # Stored before the API server refused that: its engines are given no terms.
    without = {**SLO, "tpot": {"target": "0s"}}
    spec = {"slo": without, "engine": {"model": MODEL}, "harvest": {"mode": "CoServe"}}
    assert service_facts({"metadata": {"namespace": "ns", "name": "chat"}, "spec": spec}).served is None
    assert service().served is None


@pytest.mark.parametrize(
    ("told", "want"),
    [
        ({"seats": 8}, EngineView(SERVED, 8)),
        ({"seats": 8, "ended": "out of memory"}, EngineView(SERVED, 8, "out of memory")),
        (None, EngineView(SERVED, 0)),
    ],
)
def test_an_engine_as_its_node_reports_it(told: dict[str, Any] | None, want: EngineView) -> None:
    report = harvest(online(), **({"coServing": told} if told else {}))
    found = one_device(report, engine_pod(), services=(service(mode="CoServe"),))
    assert found.engine == want
    assert found.engine.takes is (told == {"seats": 8})
    assert one_device(report, engine_pod(), services=(service(),)).engine is None
    assert one_device(harvest(None), engine_pod(), services=(service(mode="CoServe"),)).engine is None


REPLACED = "its engine is being replaced"
UNTOLD = "its engine has not told yet whether jobs ride in it"
SEATS = {"coServing": {"seats": 8}}


def seen(seconds: float) -> Any:
    """A pod that had been ready for so long when the node reported."""
    return engine_pod(
        conditions=[{"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(unix_seconds(STAMP) - seconds)}]
    )


@pytest.mark.parametrize(
    ("manifest", "told", "want"),
    [
        (engine_pod(), {}, UNTOLD),
        (engine_pod(conditions=None), {}, UNTOLD),
        (engine_pod(conditions=[{"type": "Ready", "status": "False"}]), {}, UNTOLD),
        # It was ready after, or just before, the agent looked.
        (seen(-3), {}, UNTOLD),
        (seen(29), {}, UNTOLD),
        # It is not going to.
        (seen(30), {}, ""),
        # The agent was started anew, and has found it so many seconds ago.
        (seen(900), {"coveredSeconds": 29.0}, UNTOLD),
        (seen(900), {"coveredSeconds": 30.0}, ""),
        (engine_pod(conditions=[{"type": "Ready", "status": "True"}]), {}, ""),
        # Too busy for the kubelet's probe: it takes jobs in all the same.
        (engine_pod(conditions=[{"type": "Ready", "status": "False"}]), SEATS, ""),
        (engine_pod(args=["--dtype=float32"]), SEATS, "its engine is being replaced"),
        (engine_pod(meta={"deletionTimestamp": STAMP}), SEATS, "its engine is being replaced"),
        # Not the operator's: it stays as it is.
        (pod(), {}, ""),
    ],
)
def test_newcomers_wait_until_an_engine_has_told_whether_jobs_ride(manifest: Any, told: Any, want: str) -> None:
    view = one_device(harvest(online(), **told), manifest, services=(service(mode="CoServe"),))
    assert (view.awaited, view.closed) == (want, want)
    # In other modes nobody waits.
    assert one_device(harvest(online(), **told), manifest, services=(service(),)).closed == ""


@pytest.mark.parametrize(("where", "memory", "view", "awaited"), [
    ("n", 2 * 2**30, EngineView(SERVED), UNTOLD),
    ("m", None, EngineView(SERVED), REPLACED),
    (None, None, EngineView(SERVED), REPLACED),
])  # fmt: skip
def test_a_pod_that_is_not_on_the_node_is_not_its_engine(
    where: str | None, memory: int | None, view: EngineView, awaited: str
) -> None:
    """An agent speaks for its own node alone: of another's pod its seats do not count."""
    told = harvest(online(), **(SEATS if where != "n" else {}))
    found = one_device(told, engine_pod(meta={"node": where}), services=(service(mode="CoServe"),))
    assert (found.engine, found.awaited) == (view, awaited)
    holds = pod(node=where, limits={"rowen.dev/online": "1"})
    assert one_device(harvest(online()), holds, services=(service(),)).online_memory == memory


@pytest.mark.parametrize("args", [None, ["--enable-lora", "--dtype=float32"]])
def test_a_pod_that_serves_what_was_before_takes_nobody_in(args: list[str] | None) -> None:
    """While they are replaced, or before the operator has changed them."""
    report = harvest(online(), coServing={"seats": 8})
    old = pod() if args is None else engine_pod(args=args)
    assert one_device(report, old, services=(service(mode="CoServe"),)).engine is None


def test_an_engine_whose_pod_is_gone_is_away_while_its_service_is_the_same() -> None:
    """The report is from before it was deleted: another pod is to come."""
    stale = harvest(online(), coServing={"seats": 8})
    away = one_device(stale, services=(service(mode="CoServe"),))
    assert (away.attached, away.engine, away.closed) == (True, EngineView(SERVED), REPLACED)
    decision = run(*running(node("n", away), seated(rider("j"), "n")), rider("k"))
    assert outcome(decision, "j").action is Action.KEEP
    assert outcome(decision, "k").message == f"no candidate holds: n/cpu0: {REPLACED}"


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (service(), "its service has another mode, model or arguments now"),
        (replace(service(mode="CoServe"), served=Served("ns", "models/other")), "its engine serves another model now"),
    ],
)
def test_riders_of_a_pod_that_is_gone_end_with_a_change_of_its_service(now: ServiceFacts, told: str) -> None:
    there = one_device(harvest(online(), coServing={"seats": 8}), services=(now,))
    found = outcome(run(*running(node("n", there), seated(rider("j"), "n"))), "j")
    assert found.loss is not None
    assert (found.loss.reason, found.message) == ("RideEnded", f"n/cpu0: {told}")


@pytest.mark.parametrize(
    ("figures", "ridden"),
    [
        ({}, False),
        ({"ridingFraction": 0.5}, True),
        ({"soloTokensPerSecond": 3.0}, True),
        ({"backwardTokensPerSecond": 3.0}, True),
    ],
)
def test_whether_jobs_rode_of_late_is_told_by_the_report(figures: dict[str, float], ridden: bool) -> None:
    report = harvest(online(), coServing={"seats": 8, **figures})
    found = one_device(report, engine_pod(), services=(service(mode="CoServe"),))
    assert found.engine == EngineView(SERVED, 8, ridden=ridden)


def read(**spec: Any) -> Rider | None:
    view = job_view(job_manifest(template=None, **spec))
    assert view is not None
    return view.rider


def test_which_jobs_can_ride() -> None:
    assert read(fineTune=TUNE) == Rider("models/tiny", precision="Float32")
    assert read(fineTune={**TUNE, "lora": {"dropout": 0.1}}) == Rider(
        "models/tiny", "lora.dropout above 0", precision="Float32"
    )
    assert read(fineTune=TUNE, devices=2) == Rider("models/tiny", "spec.devices above 1", precision="Float32")
    rows = read(batchInference=ROWS)
    assert rows is not None
    assert (rows.model, rows.obstacle, rows.obstacle_in(())) == ("models/tiny", "", "")
    assert rows.obstacle_in(("--api-key=x",)) == "the engine's --api-key"
    assert Rider("m", "no").obstacle_in(()) == "no"
    tune = Rider("m", precision="Float32")
    assert tune.obstacle_in(("--dtype=bfloat16",)) == "precision Float32, and the engine's --dtype bfloat16"
    assert tune.obstacle_in(("--dtype=float32",)) == ""
    template = job_view(job_manifest())
    assert template is not None
    assert template.rider is None


def test_classes_of_riders() -> None:
    assert own_class(ride_class("FineTune|m")) == own_class("FineTune|m") == "FineTune|m"
    assert ride_class("FineTune|m") != "FineTune|m"


def test_a_pod_with_a_seat_holds_no_memory_of_the_device() -> None:
    manifest = pod("j-1", memory="1Gi", limits={"rowen.dev/ride": "1"}, labels={"rowen.dev/job-uid": "u"})
    facts = pod_facts(manifest)
    assert facts is not None
    assert (facts.seats, facts.harvest_slots, facts.holds) == (1, 0, True)
    (found,) = assemble([], [], [], [facts], [], Hearing(), {}).pods
    assert (found.rides, found.slots, found.memory, found.job) == (True, 0, 0, "u")
    beside = pod_facts(pod("j-1", memory="1Gi", limits={"rowen.dev/harvest": "1"}))
    assert beside is not None
    (other,) = assemble([], [], [], [beside], [], Hearing(), {}).pods
    assert (other.rides, other.slots, other.memory) == (False, 1, 2**30)
    engine_pod = pod_facts(pod(limits={"rowen.dev/online": "1"}))
    assert engine_pod is not None
    assert not engine_pod.holds


def test_the_status_says_in_which_mode() -> None:
    found = outcome(run(node("a", engine("a")), rider("j")), "j")
    status = wanted(found, (), History(), NOW, POLICY)
    assert status.assignment is not None
    assert status.assignment.mode == "CoServe"
    assert status.explanation is not None
    (candidate,) = status.explanation.candidates
    assert (candidate.mode, candidate.chosen) == ("CoServe", True)
    assert candidate.reason == "chosen: predicted 0.82 = engine 0.82 x sharing 1.00, harvests +0.82 devices"
    view = job_view({**job_manifest(template=None, fineTune=TUNE), "status": status.to_wire()})
    assert view is not None
    assert view.placement is not None
    assert view.placement.rides


def told_of(history: History, view: JobView) -> tuple[dict[str, tuple[str, str, str]], dict[str, float]]:
    """Its conditions and its figures on the device where it is."""
    found = wanted(outcome(run(*running(node("a", engine("a")), view), history=history), "j"), (), history, NOW, POLICY)
    conditions = {each.type: (each.status, each.reason, each.message) for each in found.conditions}
    return conditions, found.throughput.to_wire() if found.throughput is not None else {}


UNPROFILED = "its throughput alone is not known, and not measured while an engine computes it"
RIDES = {("CoServe|class", "cpu"): Profile(90.0, 600.0, NOW)}
SEEN = Track("id-j", "j-1", "CoServe|class", ("cpu",), NOW - 600, NOW, 1000, 600.0, tokens_per_second=80.0)


@pytest.mark.parametrize(
    ("profiles", "tracks", "figures"),
    [
        (RIDES, {"uid-j": SEEN}, {"predictedTokensPerSecond": 90.0, "measuredTokensPerSecond": 80.0}),
        ({}, {"uid-j": SEEN}, {"measuredTokensPerSecond": 80.0}),
        (RIDES, {}, {}),
    ],
)
def test_of_a_rider_whose_throughput_alone_is_not_known_nothing_is_said_that_is_a_part_of_it(
    profiles: Any, tracks: Any, figures: dict[str, float]
) -> None:
    history = History(profiles, tracks=tracks)
    conditions, told = told_of(history, seated(rider("j", sla=0.5)))
    assert conditions["Admitted"] == ("True", "Admitted", f"in the queue; {UNPROFILED}")
    assert conditions["SLAMet"] == ("Unknown", "Unprofiled", UNPROFILED)
    assert told == figures


def test_what_is_predicted_of_riders_is_shared_among_them() -> None:
    history = History(RIDES, tracks={"uid-j": SEEN})
    snapshot = running(node("a", engine("a")), seated(rider("j")), seated(rider("other")))
    status = wanted(outcome(run(*snapshot, history=history), "j"), (), history, NOW, POLICY)
    assert status.throughput is not None
    assert status.throughput.to_wire() == {"predictedTokensPerSecond": 45.0, "measuredTokensPerSecond": 80.0}


@pytest.mark.parametrize(
    ("type_", "tracks", "reason"),
    [
        ("cpu", {"uid-j": SEEN}, "Measuring"),
        ("cpu", {}, "Measuring"),
        # Alone it is known of another type of device.
        ("gpu", {"uid-j": SEEN}, "Unprofiled"),
        ("gpu", {}, "Measuring"),
    ],
)
def test_where_it_is_known_of_its_device_a_rider_is_measured(type_: str, tracks: Any, reason: str) -> None:
    history = History({("class", type_): Profile(100.0, 600.0, NOW)}, tracks=tracks)
    conditions, _ = told_of(history, seated(rider("j", sla=0.5)))
    assert conditions["Admitted"][1] == "Admitted"
    assert conditions["SLAMet"][:2] == ("Unknown", reason)


def test_a_rider_that_makes_nothing_at_all_is_below_its_sla_in_any_case() -> None:
    history = History(tracks={"uid-j": replace(SEEN, fraction=0.0, shortfall=120.0)})
    conditions, _ = told_of(history, seated(rider("j", sla=0.5)))
    assert conditions["SLAMet"] == ("False", "SLAViolated", conditions["Placed"][2])


def test_one_that_waits_is_measured_once_it_runs_by_itself() -> None:
    found = outcome(run(rider("j")), "j")
    (admitted, _) = wanted(found, (), History(), NOW, POLICY).conditions
    assert (admitted.reason, admitted.message) == (
        "Profiling", "in the queue; its throughput alone is measured once it runs by itself",
    )  # fmt: skip


@pytest.mark.parametrize(("alone", "rate"), [({}, 90.0), ({("class", "cpu"): Profile(100.0, 600.0, NOW)}, 82.0)])
def test_who_asks_what_if_is_told_what_riders_make(alone: Any, rate: float) -> None:
    snapshot, history = world(node("a", engine("a")), rider("j")), History({**RIDES, **alone})
    decided = decide(snapshot, history, NOW, POLICY)
    (told,) = Teller(snapshot, history, Sight(None)).decision(decided.outcomes, {}).jobs
    assert (told.mode, told.predicted_fraction, told.predicted_tokens_per_second) == ("CoServe", 0.82, rate)


def test_without_a_mode_its_pod_runs_beside_the_engine() -> None:
    found = outcome(run(node("a"), rider("j")), "j")
    status = wanted(found, (), History(), NOW, POLICY).to_wire()
    assert "mode" not in status["assignment"]
    assert "mode" not in status["explanation"]["candidates"][0]


def test_a_rider_stays_one_from_pass_to_pass() -> None:
    found = outcome(run(*running(node("a", engine("a")), seated(rider("j")))), "j")
    status = wanted(found, (), History(), NOW, POLICY)
    assert status.assignment is not None
    assert status.assignment.rides

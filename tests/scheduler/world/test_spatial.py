"""Jobs beside engines that share their devices: how they are read, placed, and told of."""

from dataclasses import replace
from typing import Any

import pytest
from scheduler.builders import NOW, POLICY, device, job, node, outcome, placed, run, running
from scheduler.placement.test_seats import engine, rider
from scheduler.world.test_facts import harvest, one_device, online
from scheduler.world.test_facts import job as job_manifest

from rowen.scheduler.history import History
from rowen.scheduler.model.mode import mode_of, mode_told
from rowen.scheduler.snapshot import JobView, NodeView
from rowen.scheduler.world.facts import ServiceFacts, job_view, service_facts
from rowen.scheduler.world.status import wanted

SHARES = device("a", shares=True)


def service(mode: str, **fields: Any) -> ServiceFacts:
    slo = {"ttft": {"target": "1s"}, "tpot": {"target": "1s"}}
    spec = {"slo": slo, "engine": {"model": {"claimName": "m", "path": "p"}}, "harvest": {"mode": mode}} | fields
    return service_facts({"metadata": {"namespace": "ns", "name": "chat"}, "spec": spec})


@pytest.mark.parametrize(("mode", "shares"), [("Spatial", True), ("Preempt", False), ("CoServe", False)])
def test_what_a_service_says_is_true_of_its_devices(mode: str, *, shares: bool) -> None:
    assert one_device(harvest(online()), services=(service(mode),)).shares is shares
    assert not one_device(harvest(None), services=(service(mode),)).shares
    assert service("Spatial").served is None


@pytest.mark.parametrize(
    "stored",
    [
        {"slo": {"ttft": {"target": "0s"}, "tpot": {"target": "1s"}}},
        {"slo": {"ttft": {"target": "1s"}, "tpot": {"target": "0s"}}},
        {"engine": None, "workloadRef": {"kind": "Deployment", "name": "chat"}},
    ],
)
def test_one_that_was_stored_before_such_were_refused_shares_nothing(stored: dict[str, Any]) -> None:
    """The operator gives its engine no terms, so its gate stays closed beside requests."""
    assert not service("Spatial", **stored).shares


@pytest.mark.parametrize(
    ("rides", "shares", "mode"),
    [(True, False, "CoServe"), (True, True, "CoServe"), (False, True, "Spatial"), (False, False, None)],
)
def test_modes(mode: str | None, *, rides: bool, shares: bool) -> None:
    assert mode_of(rides=rides, shares=shares) == mode
    assert mode_told(mode) == {
        None: "", "CoServe": ", in its engine (CoServe)", "Spatial": ", beside its engine (Spatial)"
    }[mode]  # fmt: skip
    assert mode_told("Later") == ""


def test_it_is_placed_as_beside_any_engine_and_told_so() -> None:
    found = outcome(run(node("a", SHARES), rider("j")), "j")
    plain = outcome(run(node("a"), rider("j")), "j")
    assert found.fraction == plain.fraction
    assert found.message == plain.message.replace("a/cpu0", "a/cpu0, beside its engine (Spatial)")
    status = wanted(found, (), History(), NOW, POLICY)
    assert status.assignment is not None
    assert (status.assignment.mode, status.assignment.rides) == ("Spatial", False)
    assert status.explanation is not None
    assert [each.mode for each in status.explanation.candidates] == ["Spatial"]
    view = job_view({**job_manifest(), "status": status.to_wire()})
    assert view is not None
    assert view.placement is not None
    assert (view.placement.rides, view.placement.shares, view.placement.mode) == (False, True, "Spatial")


def test_a_seat_is_a_seat() -> None:
    found = outcome(run(node("a", replace(engine("a"), shares=True)), rider("j")), "j")
    assert found.placement is not None
    assert found.placement.mode == "CoServe"


def test_a_job_on_several_devices_has_no_share() -> None:
    """The agent gives none to its pod."""
    view = node("a", device("a", "cpu0", shares=True), device("a", "cpu1", shares=True))
    found = outcome(run(view, job("j", devices=2)), "j")
    assert found.placement is not None
    assert (found.placement.shares, found.placement.mode) == (False, None)
    assert kept(view, job("j", devices=2), "cpu0", "cpu1", shares=True) is None


def kept(view: NodeView, own: JobView | None = None, *devices: str, **said: Any) -> str | None:
    found = outcome(run(*running(view, placed(own or job("j"), "a", *devices, **said))), "j")
    assert found.action.value == "keep"
    assert found.placement is not None
    return found.placement.mode


def test_the_mode_is_the_services_of_now() -> None:
    """Another mode of the service moves nobody."""
    assert kept(node("a", SHARES)) == "Spatial"
    assert kept(node("a"), shares=True) is None
    assert kept(node("a"), shares=False) is None

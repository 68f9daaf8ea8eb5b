"""The figures of a service's status, whose its children are, and when it is Degraded: values by hand."""

from dataclasses import replace
from typing import Any

import pytest
from operator_builders import SLO, device, online, quantiles, report

from rowen.crds.service.online_service import LatencyTarget, OnlineServiceSpec, OnlineServiceStatus
from rowen.operator.say import Say
from rowen.operator.services.conditions import degraded, name_taken, observed
from rowen.operator.services.snapshot import ServiceSnapshot

READY, STARTING = Say("True", "AllReady"), Say("False", "Progressing")
HARVESTING = Say("True", "Harvesting")


def service(*devices: dict[str, Any], harvest: bool = True) -> ServiceSnapshot:
    spec = {"workloadRef": {"kind": "Deployment", "name": "theirs"}, "slo": SLO, "harvest": {"enabled": harvest}}
    return ServiceSnapshot(
        "team", "chat", "s1", 1, OnlineServiceSpec.from_wire(spec), OnlineServiceStatus(), "image",
        devices=report(*devices).devices,
    )  # fmt: skip


def test_the_figure_is_the_worst_devices_at_the_objectives_own_percentile() -> None:
    target = LatencyTarget(target="500ms", percentile=90)
    told = {**quantiles(0.2), "p90": 0.3, "p99": 0.9}
    seen = [device("a", online=online(ttft=told)), device("b", online=online(ttft=quantiles(0.1)))]
    found = observed(service(*seen, device("c"), device("d", online=online())).devices, target, "ttft")
    assert found is not None
    assert (found.percentile, found.value_seconds, found.target_seconds) == (90, 0.3, 0.5)
    assert observed(service(*seen).devices, target, "tpot") is None
    assert observed((), target, "ttft") is None


HALF = (device("a", online=online()), device("b", online=online(attached=False)), device("c"))


@pytest.mark.parametrize(
    ("snapshot", "ready", "harvest", "told"),
    [
        (service(*HALF), READY, HARVESTING, ("True", "NotAttached", "Rowen's plugin has not attached on devices b")),
        (service(*HALF), STARTING, HARVESTING, ("False", "AsExpected", "")),
        (service(*HALF, harvest=False), READY, Say("False", "Disabled"), ("False", "AsExpected", "")),
        (service(HALF[0]), READY, HARVESTING, ("False", "AsExpected", "")),
        (service(*HALF), READY, Say("False", "HarvestStopped", "m"), ("True", "HarvestStopped", "m")),
        (service(*HALF), STARTING, Say("False", "HarvestStopped", "m"), ("False", "AsExpected", "")),
        (service(), Say("False", "ScaledToZero"), HARVESTING, ("False", "AsExpected", "")),
        (service(), Say("False", "NameTaken", "m"), HARVESTING, ("True", "NameTaken", "m")),
    ],
)
def test_degraded(snapshot: ServiceSnapshot, ready: Say, harvest: Say, told: tuple[str, str, str]) -> None:
    found = degraded(snapshot, ready, harvest)
    assert (found.status, found.reason, found.message) == told


@pytest.mark.parametrize(
    ("owners", "taken"),
    [(None, True), ([], True), (["s2"], True), (["s1"], False), (["s2", "s1"], False), (["s1", "s2"], False)],
)
def test_a_service_that_this_one_does_not_own_takes_its_name(owners: list[str] | None, taken: bool) -> None:
    references = {} if owners is None else {"ownerReferences": [{"uid": uid} for uid in owners]}
    engine = {"engine": {"model": {"claimName": "models", "path": "llama"}}, "slo": SLO}
    found = replace(service(), cluster_service={"metadata": {"name": "chat", **references}})
    assert not name_taken(found)
    assert name_taken(replace(found, spec=OnlineServiceSpec.from_wire(engine))) is taken

"""What an OnlineService's status and events say of its objective and of the SLO guard."""

from dataclasses import replace
from typing import Any

import pytest
from operator_builders import NOW, SLO, condition, device, online, report, requests

from rowen.crds.online_service import OnlineServiceStatus
from rowen.kube.timestamps import rfc3339
from rowen.operator.decision import Note
from rowen.operator.services.policy import decide
from rowen.operator.services.snapshot import ServiceSnapshot, service_snapshot

TEMPLATE = {
    "metadata": {"labels": {"rowen.dev/service": "chat"}},
    "spec": {"containers": [{"name": "c", "resources": {"limits": {"rowen.dev/online": "1"}}}]},
}
WORKLOAD = {
    "metadata": {"name": "theirs"},
    "spec": {"template": TEMPLATE},
    "status": {"replicas": 1, "readyReplicas": 1},
}


def service(*windows: dict[str, Any], harvest: bool = True, **status: Any) -> ServiceSnapshot:
    manifest = {
        "metadata": {"name": "chat", "namespace": "team", "uid": "s1"},
        "spec": {
            "workloadRef": {"kind": "Deployment", "name": "theirs"},
            "slo": SLO,
            "harvest": {"enabled": harvest},
        },
        "status": status,
    }
    devices = report(device(online=online(requests=list(windows)))).devices
    return service_snapshot(
        manifest, workload=WORKLOAD, cluster_service=None, pods=(), devices=devices, runtime_image="i"
    )


def after(snapshot: ServiceSnapshot, *windows: dict[str, Any], now: float = NOW) -> ServiceSnapshot:
    """The service with the status that was decided on, and other requests."""
    status = OnlineServiceStatus.from_wire(dict(status_of(snapshot, now)))
    return replace(service(*windows), status=status)


def status_of(snapshot: ServiceSnapshot, now: float = NOW) -> dict[str, Any]:
    status = decide(snapshot, now).status
    assert status is not None
    return dict(status)


def said(snapshot: ServiceSnapshot, type_: str, now: float = NOW) -> tuple[str, str, str]:
    found = next(entry for entry in status_of(snapshot, now)["conditions"] if entry["type"] == type_)
    return found["status"], found["reason"], found["message"]


def slo(snapshot: ServiceSnapshot) -> tuple[str, str]:
    return said(snapshot, "SLOMet")[:2]


MET, MISSED, UNKNOWN = ({"conditions": [condition("SLOMet", *told)]} for told in (
    ("True", "Met"), ("False", "TtftExceeded"), ("Unknown", "NoTraffic"),
))  # fmt: skip


@pytest.mark.parametrize(
    ("late", "of", "before", "expected"),
    [
        (0, 99, {}, ("Unknown", "TooFewRequests")),
        (99, 99, {}, ("Unknown", "TooFewRequests")),
        (1, 100, {}, ("True", "Met")),
        (1, 100, UNKNOWN, ("True", "Met")),
        (1, 100, MISSED, ("True", "Met")),
        # 2 to 4 of 100 miss a p99, and not with confidence.
        (2, 100, {}, ("Unknown", "Unclear")),
        (4, 100, UNKNOWN, ("Unknown", "Unclear")),
        (4, 100, MET, ("True", "Met")),
        (2, 100, MISSED, ("False", "TtftExceeded")),
        (5, 100, MET, ("False", "TtftExceeded")),
        (5, 100, {}, ("False", "TtftExceeded")),
        # What is known stays known down to half as many.
        (0, 50, MET, ("True", "Met")),
        (1, 50, MISSED, ("False", "TtftExceeded")),
        (0, 49, MET, ("Unknown", "TooFewRequests")),
        (0, 0, MET, ("Unknown", "NoTraffic")),
    ],
)
def test_the_objective_does_not_flap_on_a_few_requests(
    late: int, of: int, before: dict[str, Any], expected: tuple[str, str]
) -> None:
    assert slo(service(requests({0.1: of - late, 0.9: late}), **before)) == expected
    # Whether offline work was there makes no difference.
    assert slo(service(requests({0.1: of - late}), requests({0.9: late}, offline=True), **before)) == expected


def test_each_objective_has_a_past_of_its_own() -> None:
    both = service(requests({0.1: 98, 0.9: 2}, {0.01: 98, 0.09: 2}), **MISSED)
    assert slo(both) == ("False", "TtftExceeded")
    last = {"conditions": [condition("SLOMet", "False", "TtftAndTpotExceeded")]}
    assert slo(service(requests({0.1: 98, 0.9: 2}, {0.01: 98, 0.09: 2}), **last)) == ("False", "TtftAndTpotExceeded")
    # Requests of one token have no time per output token.
    assert slo(service(requests({0.1: 200}, {0.01: 3}))) == ("True", "Met")


HARM = requests({0.1: 900, 0.9: 100}, {0.01: 1000}, offline=True), requests({0.1: 1000}, {0.01: 1000})
OVERLOADED = requests({0.1: 900, 0.9: 100}, offline=True), requests({0.1: 900, 0.9: 100})
FIGURES = (
    "TTFT above 0.5 s: 100 of 1000 requests of the last 10 min beside offline work, 0 of 1000 requests without "
    "(1% may be)"
)


def test_the_cause_of_a_miss_is_told() -> None:
    shares = "TTFT above 0.5 s in 5.0% of 2000 requests, 1% may be"
    assert said(service(*HARM), "SLOMet")[2] == f"{shares}; harvesting is the cause: {FIGURES}"
    _, reason, message = said(service(*OVERLOADED), "SLOMet")
    assert (reason, "; harvesting is not the cause: without offline work it is missed too: " in message) == (
        "TtftExceeded",
        True,
    )
    assert "; too few requests without offline work to tell the cause: " in said(service(HARM[0]), "SLOMet")[2]
    unclear = requests({0.1: 94, 0.9: 6}, offline=True), requests({0.1: 97, 0.9: 3})
    assert said(service(*unclear), "SLOMet")[2] == "TTFT above 0.5 s in 4.5% of 200 requests, 1% may be"


def test_a_step_is_told_once_in_the_status_a_condition_and_an_event() -> None:
    harmed = service(*HARM)
    guard = {"level": "Reduced", "since": rfc3339(NOW), "steps": 1, "cause": "Harvest", "message": FIGURES}
    assert status_of(harmed)["harvestGuard"] == guard
    told = f"the SLO guard lets be harvested: one job at a time on each device; {FIGURES}"
    assert said(harmed, "HarvestEnabled") == ("True", "HarvestReduced", f"1 of 1 devices are harvested; {told}")
    assert said(harmed, "Degraded")[0] == "False"
    assert Note("Warning", "HarvestReduced", told) in decide(harmed, NOW).notes
    later = after(harmed, *HARM)
    assert decide(later, NOW + 60).notes == ()
    assert status_of(later, NOW + 60)["harvestGuard"] == guard
    # The next step, with one event: `Degraded` says the same.
    stop = decide(later, NOW + 660)
    told = f"the SLO guard lets be harvested: nothing; {FIGURES}"
    assert said(later, "HarvestEnabled", NOW + 660) == ("False", "HarvestStopped", told)
    assert said(later, "Degraded", NOW + 660) == ("True", "HarvestStopped", told)
    assert stop.notes == (Note("Warning", "HarvestStopped", told),)
    stopped = after(later, HARM[1], now=NOW + 660)
    assert decide(stopped, NOW + 660 + 1799).notes == ()
    (note,) = decide(stopped, NOW + 660 + 1800).notes
    assert (note.type, note.reason) == ("Normal", "HarvestRestored")
    assert note.message.endswith("one job at a time on each device; tried again after 30 min")


def test_a_service_that_misses_its_objective_by_itself_is_harvested() -> None:
    assert "harvestGuard" not in status_of(service(*OVERLOADED))
    assert said(service(*OVERLOADED), "HarvestEnabled")[:2] == ("True", "Harvesting")


def test_harvesting_that_is_switched_off_has_no_guard() -> None:
    stopped = {"harvestGuard": {"level": "Stopped", "since": rfc3339(NOW), "steps": 2}}
    off = service(*HARM, harvest=False, **stopped)
    assert "harvestGuard" not in status_of(off)
    assert said(off, "HarvestEnabled")[1] == "Disabled"
    assert "HarvestRestored" not in {note.reason for note in decide(off, NOW).notes}
    assert status_of(service(*HARM, **stopped))["harvestGuard"]["level"] == "Stopped"


def test_without_reports_the_guard_stays_and_nothing_is_said_of_the_objective() -> None:
    stopped = {"harvestGuard": {"level": "Stopped", "since": rfc3339(NOW), "steps": 2}}
    silent = replace(service(**stopped), devices=())
    assert slo(silent) == ("Unknown", "NoReport")
    assert status_of(silent, NOW + 60)["harvestGuard"]["level"] == "Stopped"
    assert status_of(silent, NOW + 1800)["harvestGuard"]["level"] == "Reduced"

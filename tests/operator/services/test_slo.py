"""What an OnlineService's status and events say of its objective and of the SLO guard."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from operator_builders import NOW, SLO, condition, device, online, report, requests, tenant

from rowen.crds.harvest.co_serving import TenantMode
from rowen.crds.service.online_service import OnlineServiceStatus
from rowen.kube.timestamps import rfc3339
from rowen.operator.decision import Note
from rowen.operator.services.objective import Objective
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
    both = [tenant("one"), tenant("two")]
    devices = report(device(online=online(requests=list(windows)), tenants=both)).devices
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
        (0, 299, {}, ("Unknown", "TooFewRequests")),
        # That it is missed takes 100, whatever the percentile; below, nothing is said.
        (299, 299, {}, ("False", "TtftExceeded")),
        (299, 299, MET, ("False", "TtftExceeded")),
        (100, 100, {}, ("False", "TtftExceeded")),
        (100, 100, MET, ("False", "TtftExceeded")),
        (99, 99, {}, ("Unknown", "TooFewRequests")),
        (99, 99, MISSED, ("Unknown", "TooFewRequests")),
        # One in 300 is 0.3 %, and might be more than 1 % of many; 5 of 1000 are certain enough, 6 are not.
        (0, 300, {}, ("True", "Met")),
        (1, 300, UNKNOWN, ("Unknown", "Unclear")),
        (1, 300, MISSED, ("False", "TtftExceeded")),
        (1, 300, MET, ("True", "Met")),
        (0, 300, MISSED, ("True", "Met")),
        (5, 1000, MISSED, ("True", "Met")),
        (6, 1000, MISSED, ("False", "TtftExceeded")),
        # 9 of 300 miss a p99 with confidence, 8 do not.
        (8, 300, {}, ("Unknown", "Unclear")),
        (8, 300, MET, ("True", "Met")),
        (9, 300, MET, ("False", "TtftExceeded")),
        (9, 300, {}, ("False", "TtftExceeded")),
        # What is known stays known down to half as many.
        (0, 150, MET, ("True", "Met")),
        (0, 150, MISSED, ("False", "TtftExceeded")),
        (0, 149, MET, ("Unknown", "TooFewRequests")),
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
    both = requests({0.1: 298, 0.9: 2}, {0.01: 298, 0.09: 2})
    assert slo(service(both, **MISSED)) == ("False", "TtftExceeded")
    last = {"conditions": [condition("SLOMet", "False", "TtftAndTpotExceeded")]}
    assert slo(service(both, **last)) == ("False", "TtftAndTpotExceeded")
    assert said(service(both), "SLOMet")[2] == (
        "in the last 10 min 2 of 300 requests (0.7%; p99 allows 1%) took longer than 500 ms to the first token (TTFT); "
        "2 of 300 requests (0.7%; p99 allows 1%) took longer than 50 ms per output token (TPOT); "
        "more requests will tell whether that is too many"
    )
    # Requests of one token have no time per output token.
    assert slo(service(requests({0.1: 400}))) == ("True", "Met")


def test_met_says_that_both_objectives_are() -> None:
    tpot = {0.01: 400}
    assert slo(service(requests({0.9: 250}, tpot))) == ("False", "TtftExceeded")
    # 99 late ones say nothing, and the other objective does not speak for them.
    for before in ({}, MET, MISSED):
        assert said(service(requests({0.9: 99}, tpot), **before), "SLOMet") == (
            "Unknown", "TooFewRequests",
            "TTFT: 99 requests in the last 10 min are too few: 300 show whether p99 is kept",
        )  # fmt: skip
    assert slo(service(requests({0.1: 400}, {0.01: 149}), **MET)) == ("Unknown", "TooFewRequests")
    assert slo(service(requests({0.1: 400}, {0.01: 150}), **MET)) == ("True", "Met")


def test_how_many_requests_it_takes_goes_by_the_percentile() -> None:
    def least(percentile: int) -> int:
        return Objective("ttft", percentile, 0.5).least

    assert [least(percentile) for percentile in (50, 90, 95, 99)] == [100, 100, 100, 300]
    few = service(requests({0.1: 104, 0.9: 4}))
    told = "TTFT: 108 requests in the last 10 min are too few: 300 show whether p99 is kept"
    assert said(few, "SLOMet")[1:] == ("TooFewRequests", told)


def test_an_objective_that_is_kept_is_told_with_its_figures() -> None:
    """Only those that were measured."""
    assert said(service(requests({0.1: 999, 0.9: 1})), "SLOMet")[2] == (
        "in the last 10 min 1 of 1000 requests (0.1%; p99 allows 1%) took longer than 500 ms to the first token (TTFT)"
    )


def test_what_stays_as_it_was_against_its_figures_says_so() -> None:
    """And nothing of it where the figures say it themselves."""
    kept, missed = (
        "; not clearly more than that, so it still counts as kept",
        "; not clearly few enough to call it kept again",
    )
    # 20 are the hundredth that is allowed.
    cases = (
        (25, MET, kept), (20, MET, ""), (18, MET, ""),
        (18, MISSED, missed), (20, MISSED, missed), (25, MISSED, ""),
    )  # fmt: skip
    for late, before, end in cases:
        told = said(service(requests({0.1: 2000 - late, 0.9: late}), **before), "SLOMet")
        assert told[:2] == (("True", "Met") if before is MET else ("False", "TtftExceeded"))
        assert f"to the first token (TTFT){end}" in told[2]
        assert ("not clearly" in told[2]) is bool(end)


@pytest.mark.parametrize(("late", "turns"), [(0.0, 0), (0.005, 0), (0.01, 24), (0.03, 0), (0.05, 0)])
@pytest.mark.parametrize("rate", [0.5, 2.0])
def test_under_steady_traffic_the_condition_does_not_flap(late: float, turns: int, rate: float) -> None:
    """Two days, looked at each minute. One that is late just as often as it may be is the worst case."""
    chance, number = np.random.default_rng(1), round(60 * rate)
    window, told = [int(chance.binomial(number, late)) for _ in range(10)], list[tuple[str, str]]()
    for _ in range(2 * 24 * 60):
        window = [*window[1:], int(chance.binomial(number, late))]
        before = {"conditions": [condition("SLOMet", *told[-1])]} if told else {}
        told.append(slo(service(requests({0.1: 10 * number - sum(window), 0.9: sum(window)}), **before)))
    known = [status for status, _ in told if status != "Unknown"]
    assert known
    assert sum(before != after for before, after in pairwise(known)) <= turns
    # Unknown until it is known, and never again.
    assert [status for status, _ in told[len(told) - len(known) :]] == known


HARM = requests({0.1: 900, 0.9: 100}, {0.01: 1000}, offline=True), requests({0.1: 1000}, {0.01: 1000})
OVERLOADED = requests({0.1: 900, 0.9: 100}, offline=True), requests({0.1: 900, 0.9: 100})
FIGURES = (
    "100 of 1000 requests (10.0%; p99 allows 1%) beside offline work took longer than 500 ms to the first token "
    "(TTFT), and 0 of 1000 (0.0%) without it"
)


def why(at: float) -> str:
    return f"harvesting makes requests late: in the 10 min before {rfc3339(at, 'seconds')} {FIGURES}"


def test_the_cause_of_a_miss_is_told() -> None:
    shares = (
        "in the last 10 min 100 of 2000 requests (5.0%; p99 allows 1%) took longer than 500 ms to the first token "
        "(TTFT)"
    )
    parts = "100 of 1000 (10.0%) beside offline work, 0 of 1000 (0.0%) without it"
    assert said(service(*HARM), "SLOMet")[2] == f"{shares}; harvesting is the cause: {parts}"
    _, reason, message = said(service(*OVERLOADED), "SLOMet")
    assert reason == "TtftExceeded"
    parts = "100 of 1000 (10.0%) beside offline work, 100 of 1000 (10.0%) without it"
    assert message.endswith(f"; harvesting is not the cause, as requests are late without offline work too: {parts}")
    assert said(service(HARM[0]), "SLOMet")[2].endswith(
        "; whether harvesting is the cause is not known yet: all of them were served beside offline work, "
        "too few without it to compare"
    )
    both = said(service(requests({0.9: 300}, {0.09: 300}, offline=True), requests({0.1: 300}, {0.01: 300})), "SLOMet")
    parts = "300 of 300 (100.0%) beside offline work, 0 of 300 (0.0%) without it"
    assert both[2].endswith(f"per output token (TPOT); harvesting is the cause: TTFT: {parts}; TPOT: {parts}")
    unclear = requests({0.1: 193, 0.9: 7}, offline=True), requests({0.1: 197, 0.9: 3})
    assert said(service(*unclear), "SLOMet")[2] == (
        "in the last 10 min 10 of 400 requests (2.5%; p99 allows 1%) took longer than 500 ms to the first token (TTFT)"
        "; more requests will tell whether that is too many"
    )


def test_a_step_is_told_once_in_the_status_a_condition_and_an_event() -> None:
    noted = service(*HARM)
    assert said(noted, "HarvestEnabled", NOW - 720)[1] == "Harvesting"
    assert "Harvest" not in "".join(note.reason for note in decide(noted, NOW - 720).notes)
    harmed = after(noted, *HARM, now=NOW - 720)
    guard = {"level": "Reduced", "since": rfc3339(NOW), "steps": 1, "cause": "Harvest", "message": why(NOW)}
    guard["mode"] = "Preempt"
    assert status_of(harmed)["harvestGuard"] == guard
    told = (
        f"the SLO guard allows one offline job at a time on each of the service's devices; {why(NOW)}; "
        f"more are tried again at {rfc3339(NOW + 900)}, unless requests are late before"
    )
    assert said(harmed, "HarvestEnabled") == ("True", "HarvestReduced", f"1 of 1 devices are harvested; {told}")
    assert said(harmed, "Degraded")[0] == "False"
    assert Note("Warning", "HarvestReduced", told) in decide(harmed, NOW).notes
    later = after(harmed, *HARM)
    assert decide(later, NOW + 60).notes == ()
    assert status_of(later, NOW + 60)["harvestGuard"] == guard
    # The next step, with one event: `Degraded` says the same.
    stop = decide(later, NOW + 720)
    told = (
        f"the SLO guard allows no offline work on the service's devices; {why(NOW + 720)}; "
        f"one job at a time is tried again at {rfc3339(NOW + 720 + 1800)} at the latest"
    )
    assert said(later, "HarvestEnabled", NOW + 720) == ("False", "HarvestStopped", told)
    assert said(later, "Degraded", NOW + 720) == ("True", "HarvestStopped", told)
    assert stop.notes == (Note("Warning", "HarvestStopped", told),)
    stopped = after(later, HARM[1], now=NOW + 720)
    assert decide(stopped, NOW + 720 + 1799).notes == ()
    (note,) = decide(stopped, NOW + 720 + 1800).notes
    assert (note.type, note.reason) == ("Normal", "HarvestRestored")
    assert "; after 30 min at Stopped one job at a time is harvested again; more are tried again at " in note.message


def test_where_no_device_has_two_tenants_the_first_step_stops() -> None:
    harmed = after(service(*HARM), *HARM)
    alone = tuple(device.model_copy(update={"tenants": device.tenants[:1]}) for device in harmed.devices)
    levels = [
        status_of(replace(harmed, devices=devices), NOW + 720)["harvestGuard"]["level"]
        for devices in (alone, harmed.devices, alone + harmed.devices)
    ]
    assert levels == ["Stopped", "Reduced", "Reduced"]


@pytest.mark.parametrize(
    ("devices", "level"),
    [
        ([["CoServe"] * 3], "Stopped"),
        ([["CoServe", "CoServe", "Preempt"]], "Stopped"),
        ([["CoServe"] * 2, ["Preempt"]], "Stopped"),
        ([["CoServe", "Preempt", "Preempt"]], "Reduced"),
        ([["CoServe"] * 2, ["Preempt"] * 2], "Reduced"),
    ],
)
def test_of_those_who_ride_fewer_would_harm_as_much_so_the_first_step_stops(
    devices: list[list[TenantMode]], level: str
) -> None:
    harmed = after(service(*HARM), *HARM)
    (seen,) = harmed.devices
    (one, _) = seen.tenants
    told = tuple(
        seen.model_copy(update={"tenants": [one.model_copy(update={"mode": mode}) for mode in modes]})
        for modes in devices
    )
    guard = status_of(replace(harmed, devices=told), NOW + 720)["harvestGuard"]
    assert (guard["level"], guard["steps"]) == (level, 1)


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


def test_another_mode_begins_anew() -> None:
    stopped = {"level": "Stopped", "since": rfc3339(NOW), "steps": 2}
    changed = service(harvestGuard=stopped | {"mode": "CoServe"})
    assert "harvestGuard" not in status_of(changed)
    assert said(changed, "HarvestEnabled")[1] == "Harvesting"
    assert "HarvestRestored" not in {note.reason for note in decide(changed, NOW).notes}
    # Requests of the mode before may be among those that are seen: one window notes it, as ever.
    assert status_of(service(*HARM, harvestGuard=stopped | {"mode": "CoServe"}))["harvestGuard"]["level"] == "Full"
    # A release that did not tell the mode, or the same one.
    for mode in ({}, {"mode": "Preempt"}):
        assert status_of(service(harvestGuard=stopped | mode))["harvestGuard"]["level"] == "Stopped"


def test_without_reports_the_guard_stays_and_nothing_is_said_of_the_objective() -> None:
    stopped = {"harvestGuard": {"level": "Stopped", "since": rfc3339(NOW), "steps": 2}}
    silent = replace(service(**stopped), devices=())
    assert slo(silent) == ("Unknown", "NoReport")
    assert status_of(silent, NOW + 60)["harvestGuard"]["level"] == "Stopped"
    assert status_of(silent, NOW + 1800)["harvestGuard"]["level"] == "Reduced"

"""What is decided about an OnlineService, by table."""

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from operator_builders import IMAGE, NAMESPACE, NOW, SLO, condition, device, online, quantiles, report, requests

from rowen.crds.harvest.node_harvest import DeviceHarvest
from rowen.crds.service.online_service import OnlineServiceStatus
from rowen.operator.decision import Decision, Refusal
from rowen.operator.pods.container_ends import Ends
from rowen.operator.pods.view import PodView, Problem
from rowen.operator.services.manifests import cluster_service, deployment
from rowen.operator.services.policy import decide
from rowen.operator.services.snapshot import ServiceSnapshot, selector_text, service_snapshot

ENGINE = {"engine": {"model": {"claimName": "models", "path": "llama"}}}
ADOPTED = {"workloadRef": {"kind": "StatefulSet", "name": "theirs"}}


def service(spec: dict[str, Any] | None = None, **parts: Any) -> ServiceSnapshot:
    manifest = {
        "metadata": {"name": "chat", "namespace": NAMESPACE, "uid": "s1", "generation": 2},
        "spec": {"slo": SLO, **(ENGINE if spec is None else spec)},
    }
    values = {"workload": None, "cluster_service": None, "pods": (), "devices": (), **parts}
    return service_snapshot(manifest, runtime_image=IMAGE, **values)


def stored(ready: int = 1, wanted: int = 1) -> dict[str, Any]:
    """The children as the API server would return them."""
    snapshot = service()
    assert snapshot.spec.engine is not None
    workload = deployment(snapshot, snapshot.spec.engine)
    workload["spec"]["replicas"] = wanted
    workload["status"] = {"replicas": wanted, "readyReplicas": ready}
    return {"workload": workload, "cluster_service": cluster_service(snapshot)}


def without_pods(failure: str) -> dict[str, Any]:
    """The children where a quota is, or was, in the way."""
    children = stored(0)
    children["workload"]["status"]["conditions"] = [
        {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"},
        {"type": "ReplicaFailure", "status": failure, "reason": "FailedCreate", "message": "exceeded quota: memory"},
    ]
    return children


def adopted(labels: dict[str, str], limits: dict[str, str]) -> dict[str, Any]:
    return {
        "metadata": {"name": "theirs"},
        "spec": {
            "selector": {"matchLabels": {"app": "x"}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]},
            },
        },
        "status": {"replicas": 1, "readyReplicas": 1},
    }


def devices(*entries: dict[str, Any]) -> tuple[DeviceHarvest, ...]:
    return report(*entries).devices


def said(decision: Decision) -> dict[str, tuple[str, str]]:
    assert decision.status is not None
    return {entry["type"]: (entry["status"], entry["reason"]) for entry in decision.status["conditions"]}


LABEL = {"rowen.dev/service": "chat"}
LIMIT = {"rowen.dev/online": "1"}
BUSY = device(online=online(ttft=quantiles(0.1), tpot=quantiles(0.01), requests=[requests({0.1: 400}, {0.01: 400})]))
SLOW = requests({9.0: 400}, {9.0: 400})
OOM = PodView("chat-o", "o", "engine", ends=(Ends("engine", 3, "OOMKilled", 137, ""),))
CRASHED = PodView("chat-c", "c", "engine", ends=(Ends("engine", 2, "Error", 1, "ValueError: no room"),))
BROKEN = PodView("chat-x", "x", problem=Problem("Unschedulable", 'persistentvolumeclaim "models" not found'))


ENDED = Ends("proxy", 4, "Error", 2, "no route")
PROXY = Problem("CrashLoopBackOff", "back-off 40s restarting failed container", "proxy")


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        (service(), {"Ready": "Progressing", "HarvestEnabled": "NoWorkload", "SLOMet": "NoReport"}),
        (service(**stored(0)), {"Ready": "Progressing", "Degraded": "AsExpected"}),
        (service(**stored(0), pods=(BROKEN,)), {"Ready": "Unschedulable", "Degraded": "Unschedulable"}),
        (service(**stored(0), pods=(OOM,)), {"Ready": "OOMKilled", "Degraded": "OOMKilled"}),
        (service(**stored(0), pods=(CRASHED,)), {"Ready": "EngineEnded", "Degraded": "EngineEnded"}),
        # An image that went away matters more than how the engine ended before; one that is gone or goes, nothing.
        (service(**stored(0), pods=(replace(OOM, problem=Problem("ErrImagePull", "")),)), {"Ready": "ErrImagePull"}),
        (service(**stored(0), pods=(replace(OOM, phase="Failed"),)), {"Ready": "Progressing"}),
        # Another container's trouble is not the engine's; of two that end, the one that ends more often is told,
        # whichever of them the kubelet waits with.
        (service(**stored(0), pods=(replace(OOM, problem=PROXY),)), {"Ready": "CrashLoopBackOff"}),
        (
            service(**stored(0), pods=(replace(OOM, ends=(*OOM.ends, ENDED), problem=PROXY),)),
            {"Ready": "ContainerEnded"},
        ),
        (service(**stored(0), pods=(replace(OOM, ends=(*OOM.ends, ENDED)),)), {"Ready": "ContainerEnded"}),
        (
            service(**stored(0), pods=(replace(OOM, ends=(*OOM.ends, replace(ENDED, count=3)), problem=PROXY),)),
            {"Ready": "OOMKilled"},
        ),
        (service(**stored(0), pods=(replace(OOM, deletion_deadline=NOW),)), {"Ready": "Progressing"}),
        (service(**stored(), pods=(OOM,)), {"Ready": "AllReady"}),
        (service(**without_pods("True")), {"Ready": "FailedCreate", "Degraded": "FailedCreate"}),
        (service(**without_pods("False")), {"Ready": "Progressing", "Degraded": "AsExpected"}),
        (service(**stored()), {"Ready": "AllReady", "HarvestEnabled": "NoReport", "Degraded": "NoReport"}),
        (service(**stored(0, 0)), {"Ready": "ScaledToZero", "Degraded": "AsExpected"}),
        (
            service(**stored(), devices=devices(BUSY)),
            {"Ready": "AllReady", "SLOMet": "Met", "HarvestEnabled": "Harvesting", "Degraded": "AsExpected"},
        ),
        (service(**stored(), devices=devices(device(online=online()))), {"SLOMet": "NoTraffic"}),
        (
            service(**stored(), devices=devices(device(online=online(requests=[SLOW])))),
            {"SLOMet": "TtftAndTpotExceeded"},
        ),
        (
            service(**stored(), devices=devices(BUSY, device("b", online=online(requests=[requests({0.6: 40})])))),
            {"SLOMet": "TtftExceeded"},
        ),
        (
            service(**stored(), devices=devices(device(online=online(attached=False), harvestable=False))),
            {"HarvestEnabled": "NotAttached", "Degraded": "NotAttached"},
        ),
        (
            service({**ENGINE, "harvest": {"enabled": False}}, **stored(), devices=devices(BUSY)),
            {"HarvestEnabled": "Disabled", "Degraded": "AsExpected"},
        ),
        (service(ADOPTED), {"Ready": "WorkloadMissing", "Degraded": "WorkloadMissing"}),
        (service(ADOPTED, workload=adopted({}, {})), {"HarvestEnabled": "NoDevice", "Degraded": "NoDevice"}),
        (service(ADOPTED, workload=adopted({}, LIMIT)), {"Ready": "AllReady", "HarvestEnabled": "NoReport"}),
        (service(ADOPTED, workload=adopted({"rowen.dev/service": "other"}, LIMIT)), {"HarvestEnabled": "OtherService"}),
        (service(ADOPTED, workload=adopted(LABEL, LIMIT)), {"Ready": "AllReady", "HarvestEnabled": "NoReport"}),
        (service(refusal=Refusal(403, "exceeded quota")), {"Ready": "ChildRefused", "Degraded": "ChildRefused"}),
    ],
)
def test_conditions(snapshot: ServiceSnapshot, expected: dict[str, str]) -> None:
    reasons = {type_: reason for type_, (_, reason) in said(decide(snapshot, NOW)).items()}
    assert reasons | expected == reasons


@pytest.mark.parametrize(("ready", "message"), [
    (0, "0 of 1 devices are harvested: none of its engines is ready yet, and Rowen's plugin attaches in each"),
    (1, "0 of 1 devices are harvested: Rowen's plugin has not attached in the engine, or has failed there"),
])  # fmt: skip
def test_an_engine_that_starts_is_not_said_to_have_failed(ready: int, message: str) -> None:
    starting = device(online=online(attached=False), harvestable=False)
    status = decide(service(**stored(ready), devices=devices(starting)), NOW).status
    assert status is not None
    found = next(entry for entry in status["conditions"] if entry["type"] == "HarvestEnabled")
    assert found["reason"] == "NotAttached"
    assert found["message"].startswith(message)


@pytest.mark.parametrize(
    ("snapshot", "message"),
    [
        (
            service(**stored(0), pods=(BROKEN,)),
            '0 of 1 pods are ready; pod chat-x: persistentvolumeclaim "models" not found',
        ),
        (
            service(**stored(0), pods=(CRASHED,)),
            "0 of 1 pods are ready; pod chat-c: its engine ended 2 times, the last time with Error (exit code 1): "
            "ValueError: no room; `kubectl logs chat-c -c engine --previous` shows more",
        ),
        (service(**without_pods("True")), "0 of 1 pods are ready; exceeded quota: memory"),
    ],
)
def test_what_keeps_a_service_is_told_with_its_pod(snapshot: ServiceSnapshot, message: str) -> None:
    decision = decide(snapshot, NOW)
    assert decision.status is not None
    told = {entry["type"]: entry["message"] for entry in decision.status["conditions"]}
    assert told["Ready"] == told["Degraded"] == message
    assert [(note.type, note.message) for note in decision.notes] == [("Warning", message)]


@pytest.mark.parametrize("reason", ["CrashLoopBackOff", "RunContainerError"])
def test_an_engine_that_ends_again_and_again_says_the_same_between_its_starts(reason: str) -> None:
    starting = decide(service(**stored(0), pods=(CRASHED,)), NOW)
    waiting = replace(CRASHED, problem=Problem(reason, "back-off 40s restarting failed container", "engine"))
    assert decide(service(**stored(0), pods=(waiting,)), NOW).status == starting.status


def test_makes_both_children_once() -> None:
    assert [child["kind"] for child in decide(service(), NOW).children] == ["Deployment", "Service"]
    assert decide(service(**stored()), NOW).children == ()


def test_defaults_of_the_server_are_no_drift() -> None:
    children = copy.deepcopy(stored())
    children["workload"]["spec"]["template"]["spec"]["dnsPolicy"] = "ClusterFirst"
    container = children["workload"]["spec"]["template"]["spec"]["containers"][0]
    container["terminationMessagePath"] = "/dev/termination-log"
    container["resources"]["limits"]["memory"] = "4Gi"
    assert decide(service(**children), NOW).children == ()


@pytest.mark.parametrize(
    "change", [{"args": ["--x"]}, {"replicas": 3}, {"memory": "5Gi"}, {"memoryLimit": "5Gi"}, {"image": "other:2"}]
)
def test_a_changed_engine_is_applied(change: dict[str, Any]) -> None:
    spec = {"engine": {**ENGINE["engine"], **change}}
    assert [child["kind"] for child in decide(service(spec, **stored()), NOW).children] == ["Deployment"]


def engine_container(decision: Decision) -> dict[str, Any]:
    workload = next(child for child in decision.children if child["kind"] == "Deployment")
    container: dict[str, Any] = workload["spec"]["template"]["spec"]["containers"][0]
    return container


def test_an_engine_with_a_limit_has_its_own_memory_and_its_cache_in_the_pool() -> None:
    memory = {"memory": "2Gi", "memoryLimit": "5Gi", "args": ["--dtype=bfloat16"]}
    elastic = engine_container(decide(service({"engine": {**ENGINE["engine"], **memory}}), NOW))
    plain = engine_container(decide(service({"engine": {**ENGINE["engine"], **memory, "memoryLimit": "2Gi"}}), NOW))
    assert elastic["resources"] == {
        "requests": {"cpu": "100m", "memory": str(2 << 30), "rowen.dev/online": "1"},
        "limits": {"memory": str(5 << 30), "rowen.dev/online": "1"},
    }
    assert elastic["env"] == [*plain["env"], {"name": "ROWEN_POOL_BYTES", "value": str(3 << 30)}]
    assert elastic["command"] == plain["command"]
    # Without Rowen the same command starts the same engine.
    assert not [word for word in elastic["command"] if "rowen" in word]


def test_a_limit_that_adds_nothing_changes_nothing() -> None:
    same = {"engine": {**ENGINE["engine"], "memoryLimit": "4096Mi"}}
    assert decide(service(same, **stored()), NOW).children == ()
    container = engine_container(decide(service(same), NOW))
    assert container == engine_container(decide(service(), NOW))
    assert container["resources"]["limits"]["memory"] == container["resources"]["requests"]["memory"] == str(4 << 30)
    assert "ROWEN_POOL_BYTES" not in json.dumps(container)
    assert "--worker-cls" not in container["command"]


def test_an_engine_whose_limit_goes_is_applied() -> None:
    elastic = service({"engine": {**ENGINE["engine"], "memoryLimit": "5Gi"}})
    assert elastic.spec.engine is not None
    children = {**stored(), "workload": deployment(elastic, elastic.spec.engine)}
    assert decide(service({"engine": {**ENGINE["engine"], "memoryLimit": "5Gi"}}, **children), NOW).children == ()
    assert [child["kind"] for child in decide(service(**children), NOW).children] == ["Deployment"]


def test_the_engines_pods_tell_the_node_what_the_service_asks_for_in_memory() -> None:
    memory = {"pressureThreshold": 0.75, "targetReclaimsPerHour": 30}
    spec = {**ENGINE, "harvest": {"memory": memory}}
    (changed,) = decide(service(spec, **stored()), NOW).children
    for workload, expected in (
        (changed, memory),
        (stored()["workload"], {"pressureThreshold": 0.9, "targetReclaimsPerHour": 12}),
    ):
        annotations = workload["spec"]["template"]["metadata"]["annotations"]
        assert json.loads(annotations["rowen.dev/harvest-memory"]) == expected


def test_an_adopted_workload_is_never_touched() -> None:
    assert decide(service(ADOPTED, workload=adopted({}, {})), NOW).children == ()


def test_one_engine_to_a_device() -> None:
    spec = stored()["workload"]["spec"]
    assert spec["strategy"]["rollingUpdate"]["maxSurge"] == 0
    assert spec["template"]["spec"]["containers"][0]["resources"]["limits"]["rowen.dev/online"] == "1"


def test_figures() -> None:
    decision = decide(service(**stored(), devices=devices(BUSY, device("b", harvestedFraction=0.2))), NOW)
    assert decision.status is not None
    assert decision.status["harvestedFraction"] == 0.4
    assert decision.status["harvested"] == "40%"
    assert decision.status["ttft"]["valueSeconds"] == 0.1
    assert decision.status["selector"] == "rowen.dev/service=chat"


def status_of(snapshot: ServiceSnapshot) -> dict[str, Any]:
    status = decide(snapshot, NOW).status
    assert status is not None
    return dict(status)


def test_replicas_of_a_workload_and_without_one() -> None:
    told = status_of(service(**stored(2, 3)))
    assert (told["replicas"], told["readyReplicas"], told["observedGeneration"]) == (3, 2, 2)
    told = status_of(service())
    assert (told["replicas"], told["readyReplicas"], "selector" in told) == (0, 0, False)


def test_what_is_harvested_is_the_mean_of_the_devices() -> None:
    thirds = [device(id_, harvestedFraction=value) for id_, value in (("a", 0.1), ("b", 0.2), ("c", 0.2))]
    assert status_of(service(**stored(), devices=devices(*thirds)))["harvestedFraction"] == 0.167
    assert "harvestedFraction" not in status_of(service(**stored()))


def test_a_message_is_cut_to_what_the_api_takes() -> None:
    told = status_of(service(**stored(0), pods=(replace(BROKEN, problem=Problem("Unschedulable", "x" * 40_000)),)))
    assert {len(entry["message"]) for entry in told["conditions"] if entry["type"] == "Ready"} == {32_768}


def test_a_note_is_for_a_condition_that_turns() -> None:
    def noted(snapshot: ServiceSnapshot, **before: str) -> list[tuple[str, str]]:
        conditions = [condition(type_, status) for type_, status in before.items()]
        status = OnlineServiceStatus.from_wire({"conditions": conditions})
        return [(note.type, note.reason) for note in decide(replace(snapshot, status=status), NOW).notes]

    missed = device(online=online(requests=[requests({9.0: 400}, {0.01: 400})]))
    slow = service(**stored(), devices=devices(missed))
    ready, exceeded = ("Normal", "Ready"), ("Warning", "TtftExceeded")
    assert noted(slow) == [ready, exceeded]
    assert noted(slow, Ready="False", SLOMet="True") == [ready, exceeded]
    assert noted(slow, Ready="True", SLOMet="False") == []
    broken = service(**stored(0), pods=(BROKEN,))
    assert noted(broken) == noted(broken, Degraded="False") == [("Warning", "Unschedulable")]
    assert noted(broken, Degraded="True") == []


@pytest.mark.parametrize("refusal", [None, Refusal(403, "quota")])
def test_a_refused_child_is_asked_for_again_later(refusal: Refusal | None) -> None:
    decision = decide(service(refusal=refusal), NOW)
    assert (len(decision.children), decision.requeue_seconds) == ((0, 30.0) if refusal else (2, None))


def test_only_an_engine_has_an_endpoint_and_a_model() -> None:
    own, theirs = status_of(service()), status_of(service(ADOPTED))
    assert (own["endpoint"], own["model"]) == ("http://chat.team.svc:8000", "/volumes/models/llama")
    assert not {"endpoint", "model"} & set(theirs)


def test_selector_text() -> None:
    expressions = [
        {"key": "a", "operator": "In", "values": ["1", "2"]},
        {"key": "b", "operator": "NotIn", "values": ["3"]},
        {"key": "c", "operator": "Exists"},
        {"key": "d", "operator": "DoesNotExist"},
    ]
    text = selector_text({"matchLabels": {"z": "1"}, "matchExpressions": expressions})
    assert text == "z=1,a in (1,2),b notin (3),c,!d"


def test_why_no_device_is_harvested_is_told() -> None:
    faulty, loose = (
        device(online=online(), harvestable=False),
        device("b", online=online(attached=False), harvestable=False),
    )
    first = "with an attached engine are out of order: their agent's log says why"
    for found, told in (
        ([faulty], f"0 of 1 devices are harvested: 1 {first}"),
        (
            [faulty, loose],
            f"0 of 2 devices are harvested: 1 {first}; on 1 Rowen's plugin has not attached in the engine",
        ),
    ):
        status = decide(service(**stored(), devices=devices(*found)), NOW).status
        assert status is not None
        (harvest,) = [entry for entry in status["conditions"] if entry["type"] == "HarvestEnabled"]
        assert (harvest["reason"], harvest["message"]) == ("NotHarvestable", told)

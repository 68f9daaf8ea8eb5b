"""An OnlineService, owned and adopted, against a real API server."""

import time
from typing import Any

from manifests import apply, apply_status, read
from operator_builders import SLO, device, online, quantiles, report_manifest, requests
from operator_builders import tenant as offline
from operator_cluster import ROWEN, FakeCluster, find
from operator_process import OperatorProcess, eventually

from rowen.kube.timestamps import rfc3339

RESTRICTED = {
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
}
"""What the namespace asks of pods."""
ENGINE = {"model": {"claimName": "models", "path": "llama"}, "args": ["--max-model-len", "512"]}


async def _create(cluster: FakeCluster, **spec: Any) -> None:
    metadata = {"name": "chat", "namespace": cluster.namespace}
    manifest = {"apiVersion": ROWEN, "kind": "OnlineService", "metadata": metadata, "spec": {"slo": SLO, **spec}}
    await apply(cluster.client, manifest, manager="user")


async def _deployment(cluster: FakeCluster) -> dict[str, Any] | None:
    return await read(cluster.client, "apps/v1", cluster.namespace, "deployments/chat")


async def _report(cluster: FakeCluster, *devices: dict[str, Any]) -> None:
    node = f"node-of-{cluster.namespace}"
    manifest = report_manifest(*devices, node=node, time=time.time())
    manifest["metadata"] = {"name": node}
    status = manifest.pop("status")
    await apply(cluster.client, manifest, manager="rowen.dev/agent")
    await apply_status(cluster.client, {**manifest, "status": status}, manager="rowen.dev/agent")


async def test_runs_an_engine_and_tells_its_latency(
    operator: OperatorProcess, controller_manager: None, cluster: FakeCluster
) -> None:
    await _create(cluster, engine=ENGINE)
    await eventually(lambda: _deployment(cluster))
    await cluster.wait_condition("Ready", "Progressing", name="chat", url="onlineservices")
    pods = await eventually(lambda: _pods(cluster))
    assert "--max-model-len" in pods[0]["spec"]["containers"][0]["command"]
    name = pods[0]["metadata"]["name"]
    await cluster.bind(name, f"node-of-{cluster.namespace}")
    await cluster.patch(
        f"pods/{name}/status",
        {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
    )
    await cluster.wait_condition("Ready", "AllReady", name="chat", url="onlineservices")
    tenant = online(ttft=quantiles(0.6), tpot=quantiles(0.02), requests=[requests({0.6: 400}, {0.02: 400})])
    tenant["pod"] = f"{cluster.namespace}/{name}"
    await _report(cluster, device(online=tenant))
    service = await cluster.wait_condition("SLOMet", "TtftExceeded", name="chat", url="onlineservices")
    seen = {"percentile": 99, "valueSeconds": 0.6, "targetSeconds": 0.5, "display": "600.0ms"}
    assert service["status"]["ttft"] == seen
    assert find(service, "HarvestEnabled")["status"] == "True"
    assert service["status"]["endpoint"] == f"http://chat.{cluster.namespace}.svc:8000"
    scale = await read(cluster.client, ROWEN, cluster.namespace, "onlineservices/chat/scale")
    assert scale is not None
    assert scale["status"] == {"replicas": 1, "selector": "rowen.dev/service=chat"}


async def test_harvesting_that_harms_the_objective_is_reduced_then_stopped(
    operator: OperatorProcess, cluster: FakeCluster
) -> None:
    await _create(cluster, workloadRef={"kind": "Deployment", "name": "chat"})
    adopted = _foreign(cluster)
    template = adopted["spec"]["template"]
    template["metadata"]["labels"]["rowen.dev/service"] = "chat"
    resources = {"limits": {"rowen.dev/online": "1"}, "requests": {"rowen.dev/online": "1"}}
    template["spec"]["containers"][0]["resources"] = resources
    await apply(cluster.client, adopted, manager="user")
    tenant = {**online(), "pod": f"{cluster.namespace}/chat-1"}
    fine, late = {0.1: 900}, {0.1: 800, 0.9: 100}
    # Overloaded: harvesting is not the cause.
    tenant["requests"] = [requests(late, offline=True), requests(late), requests(late, seconds=3600)]
    await _report(cluster, device(online=tenant))
    service = await cluster.wait_condition("SLOMet", "TtftExceeded", name="chat", url="onlineservices")
    assert "harvesting is not the cause" in find(service, "SLOMet")["message"]
    assert find(service, "HarvestEnabled")["reason"] == "Harvesting"
    assert "harvestGuard" not in service["status"]
    tenant["requests"] = [requests(late, offline=True), requests(fine), requests(fine, seconds=3600)]
    both = [offline("one"), offline("two")]
    await _report(cluster, device(online=tenant, tenants=both))

    async def noted() -> bool:
        stored = await read(cluster.client, ROWEN, cluster.namespace, "onlineservices/chat")
        return stored is not None and stored["status"].get("harvestGuard", {}).get("level") == "Full"

    await eventually(noted)
    # What is known of it is in the status alone: each step comes by the time that stands there.
    passed = {"status": {"harvestGuard": {"since": rfc3339(time.time() - 800)}}}
    await cluster.patch("onlineservices/chat/status", passed, ROWEN)
    await _report(cluster, device(online=tenant, tenants=both))
    service = await cluster.wait_condition("HarvestEnabled", "HarvestReduced", name="chat", url="onlineservices")
    guard = service["status"]["harvestGuard"]
    assert (guard["level"], guard["steps"], guard["cause"]) == ("Reduced", 1, "Harvest")

    async def told() -> bool:
        return "HarvestReduced" in await cluster.events("chat")

    await eventually(told)
    passed = {"status": {"harvestGuard": {"since": rfc3339(time.time() - 800)}}}
    await cluster.patch("onlineservices/chat/status", passed, ROWEN)
    await _report(cluster, device(online=tenant, tenants=both))
    service = await cluster.wait_condition("HarvestEnabled", "HarvestStopped", name="chat", url="onlineservices")
    assert (service["status"]["harvestGuard"]["level"], service["status"]["harvestGuard"]["steps"]) == ("Stopped", 2)

    async def stopped() -> bool:
        return "HarvestStopped" in await cluster.events("chat")

    await eventually(stopped)
    assert (await cluster.events("chat")).count("HarvestReduced") == 1


async def test_tells_why_an_engine_ends_again_and_again(
    operator: OperatorProcess, controller_manager: None, cluster: FakeCluster
) -> None:
    await _create(cluster, engine=ENGINE)
    name = (await eventually(lambda: _pods(cluster)))[0]["metadata"]["name"]
    await cluster.bind(name)
    end = {"exitCode": 1, "reason": "Error", "message": "Traceback\nValueError: a request takes more than there is\n"}
    container = {
        "name": "engine",
        "image": "i",
        "imageID": "",
        "ready": False,
        "restartCount": 2,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s restarting failed container"}},
        "lastState": {"terminated": end},
    }
    status = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [container],
    }
    await cluster.patch(f"pods/{name}/status", {"status": status})
    service = await cluster.wait_condition("Degraded", "EngineEnded", name="chat", url="onlineservices")
    told = f"pod {name}: its engine ended 3 times, the last time with Error (exit code 1): ValueError: a request takes "
    assert told in find(service, "Ready")["message"]


async def test_repairs_what_was_changed_and_nothing_else(operator: OperatorProcess, cluster: FakeCluster) -> None:
    await _create(cluster, engine=ENGINE)
    await eventually(lambda: _deployment(cluster))
    await read_service(cluster)
    settled = await _generation_at_rest(cluster)
    body = {"spec": {"replicas": 5, "template": {"metadata": {"annotations": {"someone": "else"}}}}}
    await cluster.patch("deployments/chat", body, "apps/v1")
    await eventually(lambda: _replicas(cluster, 1))
    found = await _deployment(cluster)
    assert found is not None
    assert found["spec"]["template"]["metadata"]["annotations"]["someone"] == "else"
    assert found["metadata"]["generation"] == settled + 2, "one foreign change, one repair"


async def test_does_not_take_a_foreign_deployment(operator: OperatorProcess, cluster: FakeCluster) -> None:
    await apply(cluster.client, _foreign(cluster), manager="user")
    await _create(cluster, engine=ENGINE)
    await cluster.wait_condition("Ready", "NameTaken", name="chat", url="onlineservices")
    found = await _deployment(cluster)
    assert found is not None
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "theirs"


async def test_tells_what_an_adopted_workload_lacks(operator: OperatorProcess, cluster: FakeCluster) -> None:
    await _create(cluster, workloadRef={"kind": "Deployment", "name": "chat"})
    await cluster.wait_condition("Ready", "WorkloadMissing", name="chat", url="onlineservices")
    await apply(cluster.client, _foreign(cluster), manager="user")
    await cluster.wait_condition("HarvestEnabled", "NoDevice", name="chat", url="onlineservices")
    manifest = _foreign(cluster)
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"rowen.dev/online": "1"}, "requests": {"rowen.dev/online": "1"}}
    await apply(cluster.client, manifest, manager="user")
    await cluster.wait_condition("HarvestEnabled", "NoReport", name="chat", url="onlineservices")
    manifest["spec"]["template"]["metadata"]["labels"]["rowen.dev/service"] = "other"
    await apply(cluster.client, manifest, manager="user")
    await cluster.wait_condition("HarvestEnabled", "OtherService", name="chat", url="onlineservices")
    manifest["spec"]["template"]["metadata"]["labels"]["rowen.dev/service"] = "chat"
    await apply(cluster.client, manifest, manager="user")
    await cluster.wait_condition("HarvestEnabled", "NoReport", name="chat", url="onlineservices")
    tenant = {**online(attached=False), "pod": f"{cluster.namespace}/chat-1"}
    await _report(cluster, device(online=tenant, harvestable=False))
    await cluster.wait_condition("HarvestEnabled", "NotAttached", name="chat", url="onlineservices")


async def test_pods_of_an_adopted_workload_get_its_label_and_no_other_pod_does(
    operator: OperatorProcess, controller_manager: None, cluster: FakeCluster
) -> None:
    manifest = _foreign(cluster)
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container |= {
        "resources": {"limits": {"rowen.dev/online": "1"}, "requests": {"rowen.dev/online": "1"}},
        **RESTRICTED,
    }
    await apply(cluster.client, manifest, manager="user")
    (pod,) = await eventually(lambda: _pods(cluster, "app=chat"))
    # A pod of a name that may be the workload's, and is not.
    stranger = {**pod, "metadata": {"name": "chat-own-1", "namespace": cluster.namespace}}
    await apply(cluster.client, {"apiVersion": "v1", "kind": "Pod", **_bare(stranger)}, manager="user")
    reported = [
        {"attached": False, "pod": f"{cluster.namespace}/{name}", **service}
        # One has the label of a service that is gone.
        for name, service in ((pod["metadata"]["name"], {"service": "gone"}), ("chat-own-1", {}), ("chat-away-1", {}))
    ]
    devices = [device(f"cpu{number}", online=each, harvestable=False) for number, each in enumerate(reported)]
    await _report(cluster, *devices)
    await _create(cluster, workloadRef={"kind": "Deployment", "name": "chat"})
    (labelled,) = await eventually(lambda: _pods(cluster))
    assert labelled["metadata"]["uid"] == pod["metadata"]["uid"]
    assert labelled["metadata"]["labels"] == {**pod["metadata"]["labels"], "rowen.dev/service": "chat"}
    assert labelled["spec"] == pod["spec"]
    await cluster.wait_condition("HarvestEnabled", "NoReport", name="chat", url="onlineservices")
    (own,) = await read_named(cluster, "chat-own-1")
    assert "rowen.dev/service" not in (own["metadata"].get("labels") or {})


def _bare(pod: dict[str, Any]) -> dict[str, Any]:
    containers = [{"name": "c", "image": "theirs", **RESTRICTED}]
    return {"metadata": pod["metadata"], "spec": {"containers": containers}}


async def read_named(cluster: FakeCluster, name: str) -> list[dict[str, Any]]:
    """The pod of that name."""
    return [pod for pod in await _pods(cluster, "") if pod["metadata"]["name"] == name]


def _foreign(cluster: FakeCluster) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "chat"}}, "spec": {"containers": [{"name": "c", "image": "theirs"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat", "namespace": cluster.namespace},
        "spec": {"selector": {"matchLabels": {"app": "chat"}}, "template": template},
    }


async def _pods(cluster: FakeCluster, selector: str = "rowen.dev/service=chat") -> list[dict[str, Any]]:
    found = await read(cluster.client, "v1", cluster.namespace, "pods", labelSelector=selector)
    return list((found or {"items": []})["items"])


async def _replicas(cluster: FakeCluster, number: int) -> bool:
    found = await _deployment(cluster)
    return found is not None and found["spec"]["replicas"] == number


async def read_service(cluster: FakeCluster) -> dict[str, Any]:
    """The cluster Service of the engine, once it is there."""
    return await eventually(lambda: read(cluster.client, "v1", cluster.namespace, "services/chat"))


async def _generation_at_rest(cluster: FakeCluster) -> int:
    await cluster.wait_condition("Ready", "Progressing", name="chat", url="onlineservices")
    found = await _deployment(cluster)
    assert found is not None
    return int(found["metadata"]["generation"])

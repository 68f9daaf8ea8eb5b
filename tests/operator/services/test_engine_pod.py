"""An engine's pods: what their user adds, on a real API server, and when they are probed."""

from typing import Any

import pytest
from manifests import apply, read
from operator_builders import NAMESPACE, SLO
from operator_cluster import ROWEN, FakeCluster, find
from operator_process import OperatorProcess, eventually

from rowen.crds.service.online_service import Engine
from rowen.operator.services.drift import covers
from rowen.operator.services.manifests import deployment, engine_command
from rowen.operator.services.snapshot import service_snapshot

MODEL = {"claimName": "models", "path": "llama"}
OVERLAY: dict[str, Any] = {
    "metadata": {"labels": {"team": "search"}, "annotations": {"example.com/note": "n"}},
    "spec": {
        "nodeSelector": {"zone": "a"},
        "affinity": {"nodeAffinity": None, "podAffinity": {}},
        "tolerations": [{"key": "burst", "value": ""}],
        "imagePullSecrets": [{"name": "registry"}],
        "priorityClassName": "high",
        "serviceAccountName": "reader",
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1024Mi"}}],
        "containers": [
            {
                "name": "engine",
                "env": [{"name": "OMP_NUM_THREADS", "value": "4"}, {"name": "EMPTY", "value": ""}],
                "envFrom": [{"secretRef": {"name": "keys", "optional": False}}],
                "resources": {"requests": {"cpu": "1000m"}, "limits": {"cpu": 2}},
                "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm", "readOnly": False}],
            }
        ],
    },
}


async def put(cluster: FakeCluster, harvest: dict[str, Any] | None = None, **engine: Any) -> None:
    metadata = {"name": "chat", "namespace": cluster.namespace}
    spec = {"slo": SLO, "engine": {"model": MODEL, **engine}, "harvest": harvest or {}}
    manifest = {"apiVersion": ROWEN, "kind": "OnlineService", "metadata": metadata, "spec": spec}
    await apply(cluster.client, manifest, manager="user")


async def stored(cluster: FakeCluster) -> dict[str, Any] | None:
    return await read(cluster.client, "apps/v1", cluster.namespace, "deployments/chat")


async def is_as_wanted(cluster: FakeCluster, made: dict[str, Any]) -> bool:
    """Whether what the API server has made of it counts as what was wanted: it is not applied again and again."""
    service = await read(cluster.client, ROWEN, cluster.namespace, "onlineservices/chat")
    assert service is not None
    snapshot = service_snapshot(
        service, workload=made, cluster_service=None, pods=(), devices=(), runtime_image="registry.test/runtime:1"
    )
    assert snapshot.spec.engine is not None
    return covers(made, deployment(snapshot, snapshot.spec.engine))


async def test_an_engine_that_co_serves_is_applied_once(operator: OperatorProcess, cluster: FakeCluster) -> None:
    await put(cluster, {"mode": "CoServe"}, memory="4Gi")
    made = await eventually(lambda: stored(cluster))
    env = {entry["name"]: entry for entry in made["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert env["ROWEN_ENGINE_POD"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    assert await is_as_wanted(cluster, made)


async def test_a_pod_template_is_merged_kept_and_taken_away_again(
    operator: OperatorProcess, cluster: FakeCluster
) -> None:
    await put(cluster, podTemplate=OVERLAY)
    made = await eventually(lambda: stored(cluster))
    pod = made["spec"]["template"]
    assert pod["metadata"]["labels"] == {
        "team": "search", "rowen.dev/service": "chat", "app.kubernetes.io/managed-by": "rowen"
    }  # fmt: skip
    assert {"example.com/note", "rowen.dev/harvest-memory"} <= pod["metadata"]["annotations"].keys()
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    assert (spec["nodeSelector"], spec["priorityClassName"]) == ({"zone": "a"}, "high")
    assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == ("reader", False)
    env = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert (env["OMP_NUM_THREADS"], env["HOME"], env["EMPTY"]) == ("4", "/tmp", None)
    assert container["resources"]["limits"]["rowen.dev/online"] == "1"
    assert (container["resources"]["requests"]["cpu"], container["resources"]["limits"]["cpu"]) == ("1", "2")
    assert await is_as_wanted(cluster, made)
    await put(cluster)

    async def bare() -> bool:
        now = (await stored(cluster) or {})["spec"]["template"]
        plain = not {"nodeSelector", "tolerations", "priorityClassName", "imagePullSecrets"} & now["spec"].keys()
        return plain and "team" not in now["metadata"]["labels"] and "envFrom" not in now["spec"]["containers"][0]

    await eventually(bare)


@pytest.mark.parametrize(
    ("args", "one_process"),
    [
        ([], True),
        (["--data-parallel-size=2", "--max-model-len", "512"], True),
        (["--tensor-parallel-size=2"], False),
        (["-tp", "2"], False),
        (["--max-model-len=512", "--pipeline_parallel_size", "2"], False),
        (["-pcp=2"], False),
    ],
)
def test_an_engine_that_spreads_its_model_has_an_executor_of_several_processes(
    args: list[str], one_process: bool
) -> None:
    command = engine_command("chat", Engine.from_wire({"model": MODEL, "args": args}))
    assert ("--distributed-executor-backend" in command) == one_process
    assert command[len(command) - len(args) :] == args


async def test_a_replica_asks_for_all_its_devices(operator: OperatorProcess, cluster: FakeCluster) -> None:
    for devices in (2, 3):
        await put(cluster, devicesPerReplica=devices, args=[f"--tensor-parallel-size={devices}"])

        async def asked(devices: int = devices) -> bool:
            made = await stored(cluster)
            (container,) = made["spec"]["template"]["spec"]["containers"] if made else ({"resources": {}},)
            amounts = [container["resources"].get(kind, {}) for kind in ("requests", "limits")]
            return [amount.get("rowen.dev/online") for amount in amounts] == [str(devices)] * 2

        await eventually(asked)


async def test_a_wrong_pod_template_is_told_by_its_field_and_the_engine_stays(
    operator: OperatorProcess, cluster: FakeCluster
) -> None:
    await put(cluster)
    before = await eventually(lambda: stored(cluster))
    wrong = {
        "spec.engine.podTemplate.spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value": {
            "containers": [
                {"name": "engine", "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.nowhere"}}}]}
            ]
        },
        "spec.engine.podTemplate.spec.affinity.nodeAfinity: field not declared": {"affinity": {"nodeAfinity": {}}},
        "spec.engine.podTemplate.spec.tolerations[0].operator: Invalid value": {"tolerations": [{"value": "x"}]},
    }
    for words, overlay in wrong.items():
        await put(cluster, podTemplate={"spec": overlay})

        async def told(words: str = words) -> bool:
            service = await read(cluster.client, ROWEN, cluster.namespace, "onlineservices/chat")
            ready = find(service, "Ready")
            return ready.get("reason") == "InvalidTemplate" and words in ready["message"]

        await eventually(told)
    after = await stored(cluster)
    assert after is not None
    assert after["spec"]["template"] == before["spec"]["template"]
    await put(cluster)
    await cluster.wait_condition("Ready", "Progressing", name="chat", url="onlineservices")


async def test_the_service_leads_to_rowens_own_pods_alone(
    operator: OperatorProcess, controller_manager: None, cluster: FakeCluster
) -> None:
    await put(cluster)

    async def found(path: str, selector: str = "") -> list[dict[str, Any]]:
        listed = await read(cluster.client, "v1", cluster.namespace, path, labelSelector=selector)
        return list((listed or {"items": []})["items"])

    made = await eventually(lambda: read(cluster.client, "v1", cluster.namespace, "services/chat"))
    selector = ",".join(f"{key}={value}" for key, value in made["spec"]["selector"].items())
    (own,) = await eventually(lambda: found("pods", selector))
    # As one of a workload that was adopted by a service of the name before.
    metadata = {"name": "llm-0", "namespace": cluster.namespace, "labels": {"rowen.dev/service": "chat"}}
    spec = {name: own["spec"][name] for name in ("containers", "volumes", "securityContext")}
    other = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    await apply(cluster.client, other, manager="user")
    assert len(await found("pods", "rowen.dev/service=chat")) == 2
    assert [pod["metadata"]["name"] for pod in await found("pods", selector)] == [own["metadata"]["name"]]


def probes(**engine: Any) -> dict[str, Any]:
    manifest = {
        "metadata": {"name": "chat", "namespace": NAMESPACE, "uid": "s1"},
        "spec": {"slo": SLO, "engine": {"model": MODEL, **engine}},
    }
    snapshot = service_snapshot(
        manifest, workload=None, cluster_service=None, pods=(), devices=(), runtime_image="registry.test/runtime:1"
    )
    assert snapshot.spec.engine is not None
    (container,) = deployment(snapshot, snapshot.spec.engine)["spec"]["template"]["spec"]["containers"]
    return {name: container[name] for name in ("startupProbe", "readinessProbe", "livenessProbe")}


def test_an_engine_has_hours_to_load_and_ten_minutes_to_answer() -> None:
    found = probes()
    assert {probe["httpGet"]["path"] for probe in found.values()} == {"/health"}
    longest = {name: probe["periodSeconds"] * probe["failureThreshold"] for name, probe in found.items()}
    assert longest == {"startupProbe": 7200, "readinessProbe": 30, "livenessProbe": 600}

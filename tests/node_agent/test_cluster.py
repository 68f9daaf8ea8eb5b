"""What the agent asks of the API server, of a real one."""

import asyncio
import contextlib
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from manifests import apply, read

from rowen.crds.harvest.node_harvest import NodeHarvestStatus
from rowen.crds.names import NODE_LEASE_SECONDS
from rowen.kube.errors import RefusedError
from rowen.kube.kinds import PODS
from rowen.kube.objects import apply_status, delete, get
from rowen.kube.resource import Resource
from rowen.node_agent import cluster as agents_cluster
from rowen.node_agent.cluster import Cluster
from rowen.operator.pods.security import container_security_context, pod_security_context

DEFINITIONS = Resource("CustomResourceDefinition", "apiextensions.k8s.io/v1", "customresourcedefinitions")
DEFINITION = Path(__file__).parents[2] / "crds/rowen.dev_nodeharvests.yaml"


async def until(holds):
    for _ in range(1000):
        if holds():
            return
        await asyncio.sleep(0.02)
    pytest.fail("it did not come to that")


async def lists_come_to(cluster, names):
    """How many lists it takes: the API server's memory, which they are out of, is a little later than its store."""
    for asked in range(1, 501):
        if sorted(pod.name for pod in await cluster.pods()) == names:
            return asked
        await asyncio.sleep(0.02)
    pytest.fail("it did not come to that")


async def make_pod(kube, namespace, name, node):
    container = {"name": "c", "image": "i", "securityContext": container_security_context()}
    spec = {"nodeName": node, "containers": [container], "securityContext": pod_security_context()}
    metadata = {"name": name, "namespace": namespace}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return await apply(kube, pod, manager="test")


async def test_it_makes_its_own_harvest_and_writes_its_status(kube, namespace):
    cluster = Cluster(kube, f"node-of-{namespace}", namespace)
    spec = await cluster.ensure()
    assert spec.interval_seconds > 0
    await cluster.report(NodeHarvestStatus(update_time="2026-01-01T00:00:00Z"))
    assert await cluster.ensure() == spec
    stored = await read(kube, "rowen.dev/v1alpha1", None, f"nodeharvests/node-of-{namespace}")
    assert stored["status"]["updateTime"] == "2026-01-01T00:00:00Z"


async def test_a_report_without_a_harvest_is_refused(kube, namespace):
    with pytest.raises(RefusedError) as refusal:
        await Cluster(kube, f"no-node-of-{namespace}", namespace).report(NodeHarvestStatus())
    assert refusal.value.status == 404


def definition(group, *, earlier):
    """Of a NodeHarvest in a group of its own; `earlier`: with a field that has become something else since."""
    found = yaml.safe_load(DEFINITION.read_text())
    found["metadata"]["name"] = f"nodeharvests.{group}"
    found["spec"]["group"] = group
    found["spec"]["names"] = {"kind": "NodeHarvest", "plural": "nodeharvests"}
    (version,) = found["spec"]["versions"]
    device = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["devices"]["items"]
    if earlier:
        device["properties"]["preemptions"] = {"type": "object", "properties": {"total": {"type": "integer"}}}
    return found


async def test_a_report_of_another_release_is_no_obstacle(kube, namespace, monkeypatch):
    """The API server applies nothing to an object that its definition, changed since, does not have so."""
    group = f"{namespace}.rowen.test"
    kind = Resource("NodeHarvest", f"{group}/v1alpha1", "nodeharvests")
    monkeypatch.setattr(agents_cluster, "API_VERSION", kind.api_version)
    monkeypatch.setattr(agents_cluster, "NODE_HARVESTS", kind)
    device = {"id": "d0", "type": "cpu", "memoryBytes": 1, "harvestable": True, "gateOpen": True}
    device |= {"idleFraction": 0.5, "harvestedFraction": 0.5, "preemptions": 3}
    report = NodeHarvestStatus.from_wire({"devices": [device]})
    head = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "n"}}
    before = {**head, "status": {"devices": [{**device, "preemptions": {"total": 3}}]}}
    cluster = Cluster(kube, "n", namespace)

    async def stored():
        await cluster.ensure()
        await apply_status(kube, kind, before, manager="rowen-agent")

    async def told():
        await cluster.ensure()
        await cluster.report(report)

    await apply(kube, definition(group, earlier=True), manager="test")
    try:
        await accepted(stored)
        await apply(kube, definition(group, earlier=False), manager="test")
        await accepted(told)
        found = await get(kube, kind, None, "n")
        assert [device["preemptions"] for device in found["status"]["devices"]] == [3]
    finally:
        await delete(kube, DEFINITIONS, None, f"nodeharvests.{group}")


async def accepted(write):
    """Repeats it until the API server takes it: a definition is served a little later than it is stored."""
    for _ in range(100):
        with contextlib.suppress(RefusedError):
            return await write()
        await asyncio.sleep(0.1)
    return await write()


async def test_it_sees_the_pods_of_its_own_node_alone(kube, namespace):
    node = f"node-of-{namespace}"
    await make_pod(kube, namespace, "other", f"other-{node}")
    await make_pod(kube, namespace, "mine", node)
    await lists_come_to(Cluster(kube, node, namespace), ["mine"])


@asynccontextmanager
async def followed(cluster):
    task = asyncio.create_task(cluster.follow())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_its_pods_come_out_of_a_watch_and_are_listed_while_there_is_none(kube, namespace, monkeypatch):
    node, asked = f"node-of-{namespace}", []
    call = kube.call

    def noted(method, path, **arguments):
        if (method, path) == ("GET", PODS.path()):
            asked.append(arguments["query"])
        return call(method, path, **arguments)

    monkeypatch.setattr(kube, "call", noted)
    cluster = Cluster(kube, node, namespace)
    await make_pod(kube, namespace, "first", node)
    async with followed(cluster):
        await until(cluster._pods.follows)
        lists = len(asked)
        await make_pod(kube, namespace, "second", node)
        await make_pod(kube, namespace, "other", f"other-{node}")
        await until(lambda: len(cluster.known_pods()) == 2)
        assert sorted(pod.name for pod in await cluster.pods()) == ["first", "second"]
        first = next(pod for pod in cluster.known_pods() if pod.name == "first")
        assert await cluster.pod(first.uid) == first
        await delete(kube, PODS, namespace, "first", grace_seconds=0)
        await until(lambda: [pod.name for pod in cluster.known_pods()] == ["second"])
        assert len(asked) == lists
        assert await cluster.pod(first.uid) is None
    lists = len(asked)
    await make_pod(kube, namespace, "third", node)
    needed = await lists_come_to(cluster, ["second", "third"])
    assert len(asked) == lists + needed
    assert {query["fieldSelector"] for query in asked} == {f"spec.nodeName={node}"}


class Asked:
    """Has no objects, and notes what is asked, and how long it may take."""

    def __init__(self):
        self.queries, self.seconds = [], []

    async def call(self, method, path, *, query, timeout_seconds):
        self.queries.append(query)
        self.seconds.append(timeout_seconds)
        return {"metadata": {"resourceVersion": "1"}, "items": []}


async def test_its_pods_are_listed_out_of_the_api_server_s_memory_and_well_within_the_lease():
    """A limit, or no version, may make the API server read all pods of the cluster out of its store."""
    client = Asked()
    assert await Cluster(client, "n", "agents").pods() == []
    assert client.queries == [{"fieldSelector": "spec.nodeName=n", "resourceVersion": "0"}]
    assert sum(client.seconds) < NODE_LEASE_SECONDS


async def test_a_pod_is_told_once_of_the_same_thing(kube, namespace):
    cluster = Cluster(kube, f"node-of-{namespace}", namespace)
    await make_pod(kube, namespace, "mine", f"node-of-{namespace}")
    (pod,) = await cluster.pods()
    for reason, message in (("Unacknowledged", "a"), ("Unacknowledged", "a"), ("EvictedUnacknowledged", "a" * 2000)):
        await cluster.event(pod, reason, message)
    events = (await read(kube, "v1", namespace, "events"))["items"]
    assert sorted((event["reason"], len(event["message"])) for event in events) == [
        ("EvictedUnacknowledged", 1024),
        ("Unacknowledged", 1),
    ]
    assert {event["involvedObject"]["uid"] for event in events} == {pod.uid}
    assert {event["source"]["component"] for event in events} == {"rowen.dev/agent"}

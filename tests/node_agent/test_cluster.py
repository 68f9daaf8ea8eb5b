"""What the agent asks of the API server, of a real one."""

import pytest
from manifests import apply, read

from rowen.crds.names import NODE_LEASE_SECONDS
from rowen.crds.node_harvest import NodeHarvestStatus
from rowen.kube.errors import RefusedError
from rowen.node_agent.cluster import Cluster
from rowen.operator.pods.security import container_security_context, pod_security_context


async def make_pod(kube, namespace, name, node):
    container = {"name": "c", "image": "i", "securityContext": container_security_context()}
    spec = {"nodeName": node, "containers": [container], "securityContext": pod_security_context()}
    metadata = {"name": name, "namespace": namespace}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return await apply(kube, pod, manager="test")


async def test_it_makes_its_own_harvest_and_writes_its_status(kube, namespace):
    cluster = Cluster(kube, f"node-of-{namespace}")
    spec = await cluster.ensure()
    assert spec.interval_seconds > 0
    await cluster.report(NodeHarvestStatus(update_time="2026-01-01T00:00:00Z"))
    assert await cluster.ensure() == spec
    stored = await read(kube, "rowen.dev/v1alpha1", None, f"nodeharvests/node-of-{namespace}")
    assert stored["status"]["updateTime"] == "2026-01-01T00:00:00Z"


async def test_a_report_without_a_harvest_is_refused(kube, namespace):
    with pytest.raises(RefusedError) as refusal:
        await Cluster(kube, f"no-node-of-{namespace}").report(NodeHarvestStatus())
    assert refusal.value.status == 404


async def test_it_sees_the_pods_of_its_own_node_alone(kube, namespace):
    node = f"node-of-{namespace}"
    await make_pod(kube, namespace, "mine", node)
    await make_pod(kube, namespace, "other", f"other-{node}")
    assert [pod.key for pod in await Cluster(kube, node).pods()] == [(namespace, "mine")]


class Expired:
    """Has forgotten each page, and notes how long a request may take."""

    def __init__(self):
        self.seconds = []

    async def call(self, method, path, *, query, timeout_seconds):
        self.seconds.append(timeout_seconds)
        if "limit" in query:
            raise RefusedError(410, "Expired", "too old")
        return {"metadata": {"resourceVersion": "1"}, "items": []}


async def test_a_slow_list_of_pods_does_not_outlast_the_lease():
    client = Expired()
    assert await Cluster(client, "node").pods() == []
    assert len(client.seconds) == 2
    assert sum(client.seconds) < NODE_LEASE_SECONDS


async def test_a_pod_is_told_once_of_the_same_thing(kube, namespace):
    cluster = Cluster(kube, f"node-of-{namespace}")
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

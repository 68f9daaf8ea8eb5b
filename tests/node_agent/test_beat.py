"""The node's heartbeat, as the agent renews it: what it asks of a real API server, and of ones that answer oddly."""

import socket
import time

import pytest

from rowen.crds.names import NODE_LEASE_SECONDS
from rowen.kube.errors import RefusedError
from rowen.kube.heartbeat import read_beat
from rowen.kube.kinds import LEASES
from rowen.kube.objects import delete, get, replace
from rowen.node_agent.cluster import Cluster


def noted(monkeypatch, kube):
    """The methods of the requests for leases, as they come."""
    methods, call = [], kube.call

    def note(method, path, **arguments):
        if "/leases/" in path:
            methods.append(method)
        return call(method, path, **arguments)

    monkeypatch.setattr(kube, "call", note)
    return methods


async def test_its_heartbeat_is_a_lease_of_the_agents_namespace_and_is_made_anew_where_it_is_gone(
    kube, namespace, monkeypatch
):
    node, methods = f"node-of-{namespace}", noted(monkeypatch, kube)
    cluster = Cluster(kube, node, namespace)
    before = time.time()
    await cluster.renew()
    made = await get(kube, LEASES, namespace, node)
    assert made["spec"]["leaseDurationSeconds"] == NODE_LEASE_SECONDS
    assert made["spec"]["holderIdentity"] == socket.gethostname()
    first = read_beat(made)
    assert first.node == node
    assert before <= first.renewed + 1e-6 <= time.time()
    for _ in range(2):
        await cluster.renew()
    renewed = await get(kube, LEASES, namespace, node)
    assert read_beat(renewed).renewed > first.renewed
    assert {**renewed["spec"], "renewTime": None} == {**made["spec"], "renewTime": None}
    assert methods == ["PATCH", "GET", "PUT", "PUT", "GET"], "an apply is more work for the API server"
    await delete(kube, LEASES, namespace, node)
    methods.clear()
    for _ in range(2):
        await cluster.renew()
    assert (await get(kube, LEASES, namespace, node))["metadata"]["uid"] != made["metadata"]["uid"]
    assert methods == ["PUT", "PATCH", "PATCH", "GET"], "the owners are asked for anew, and written"


async def test_what_others_write_into_its_heartbeat_is_set_right_or_stays(kube, namespace, monkeypatch):
    node, methods = f"node-of-{namespace}", noted(monkeypatch, kube)
    cluster = Cluster(kube, node, namespace)
    await cluster.renew()
    foreign = await get(kube, LEASES, namespace, node)
    foreign["metadata"]["annotations"] = {"somebody": "else"}
    foreign["spec"]["holderIdentity"] = "thief"
    foreign["spec"]["renewTime"] = "2020-01-01T00:00:00.000000Z"
    await replace(kube, LEASES, foreign, manager="other")
    methods.clear()
    for _ in range(2):
        await cluster.renew()
    assert methods == ["PUT", "PATCH", "PUT"]
    found = await get(kube, LEASES, namespace, node)
    assert found["spec"]["holderIdentity"] == socket.gethostname()
    assert read_beat(found).renewed > time.time() - 60
    assert found["metadata"]["annotations"] == {"somebody": "else"}


class Reviewed:
    """Tells the UID of the token's node, and notes what is written."""

    def __init__(self, *uids, refusal=None):
        self.uids, self.refusal, self.written = list(uids), refusal, []

    async def call(self, method, path, *, body, **_):
        if path.endswith("selfsubjectreviews"):
            if self.refusal:
                raise self.refusal
            return {"status": {"userInfo": {"extra": {"authentication.kubernetes.io/node-uid": [self.uids.pop(0)]}}}}
        self.written.append((method, body["metadata"].get("ownerReferences")))
        # It is gone after the second renewal.
        stored = {"uid": str(len(self.written) > 2), "resourceVersion": str(len(self.written))}
        return {**body, "metadata": {**body["metadata"], **stored}}


async def test_its_heartbeat_belongs_to_the_node_of_its_token():
    client = Reviewed("u-1", "u-2")
    cluster = Cluster(client, "n", "agents")
    for _ in range(5):
        await cluster.renew()
    first, second = ([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": uid}] for uid in ("u-1", "u-2"))
    assert client.written == [
        ("PATCH", first), ("PUT", first), ("PUT", first), ("PATCH", second), ("PUT", second)
    ]  # fmt: skip


async def test_without_an_answer_its_heartbeat_is_nobodys_and_a_busy_server_is_asked_again():
    client = Reviewed(refusal=RefusedError(403, "Forbidden", "no"))
    cluster = Cluster(client, "n", "agents")
    await cluster.renew()
    assert client.written == [("PATCH", None)]
    client = Reviewed("u-1", refusal=RefusedError(429, "TooManyRequests", "later"))
    cluster = Cluster(client, "n", "agents")
    with pytest.raises(RefusedError):
        await cluster.renew()
    assert client.written == []
    client.refusal = None
    await cluster.renew()
    assert client.written[0][1][0]["uid"] == "u-1"


class Counting:
    """Stores heartbeats under these versions, and lists no pods, of this version."""

    def __init__(self, *versions, listed=40, refusals=()):
        self.versions, self.listed, self.refusals = list(versions), listed, list(refusals)
        self.methods, self.seconds, self.lists = [], [], []

    async def call(self, method, path, *, body=None, query=None, timeout_seconds, **_):
        if path.endswith("selfsubjectreviews"):
            return {}
        if method == "GET":
            self.lists.append(query)
            return {"metadata": {"resourceVersion": str(self.listed)}, "items": []}
        self.methods.append(method)
        self.seconds.append(timeout_seconds)
        if method == "PUT" and self.refusals:
            raise self.refusals.pop(0)
        return {**body, "metadata": {**body["metadata"], "uid": "u", "resourceVersion": str(self.versions.pop(0))}}


@pytest.mark.parametrize("status", [403, 404, 409, 422])
async def test_where_its_heartbeat_cannot_be_renewed_as_it_was_it_is_applied(status):
    """Also where the right to renew it was taken, as by going back to the release before."""
    client = Counting(1, 2, 3, refusals=[RefusedError(status, "", "no")])
    cluster = Cluster(client, "n", "agents")
    for _ in range(3):
        await cluster.renew()
    assert client.methods == ["PATCH", "PUT", "PATCH", "PUT"]
    assert sum(client.seconds[1:3]) < NODE_LEASE_SECONDS


async def test_a_busy_server_is_not_asked_for_an_apply_in_place_of_a_renewal():
    client = Counting(1, 2, refusals=[RefusedError(429, "TooManyRequests", "later")])
    cluster = Cluster(client, "n", "agents")
    await cluster.renew()
    with pytest.raises(RefusedError):
        await cluster.renew()
    await cluster.renew()
    assert client.methods == ["PATCH", "PUT", "PUT"]


async def beaten_and_listed(cluster, client, *listed):
    """A heartbeat and a list of each version; from which version each list was asked for."""
    least = []
    for version in listed:
        client.listed = version
        await cluster.renew()
        await cluster.list_pods()
        least.append(client.lists[-1]["resourceVersion"])
    return least


async def test_a_heartbeat_of_an_earlier_version_tells_that_the_store_was_put_back():
    client = Counting(40, 41, 12, 13)
    assert await beaten_and_listed(Cluster(client, "n", "agents"), client, 39, 40, 12, 12) == ["0", "39", "0", "12"]


async def test_so_does_each_heartbeat_until_no_list_is_of_a_later_version():
    """An API server that runs on has in its memory what the store was, and lists it."""
    client = Counting(40, 41, 12, 13, 14, 15)
    cluster = Cluster(client, "n", "agents")
    assert await beaten_and_listed(cluster, client, 40, 41, 41, 41, 13, 14) == ["0", "40", "0", "0", "0", "13"]


async def test_a_list_of_before_is_noticed_also_by_the_first_heartbeat():
    client = Counting(12)
    cluster = Cluster(client, "n", "agents")
    await cluster.list_pods()
    assert await beaten_and_listed(cluster, client, 12) == ["0"]

"""An agent, with the token its pod gets, writes the NodeHarvest and the Lease of its own node and no other."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from apiserver import ApiServer
from kubectl import Kubectl
from manifests import apply_status

from rowen.crds.names import AGENT_MANAGER
from rowen.kube.client import open_client
from rowen.kube.errors import RefusedError
from rowen.kube.heartbeat import beat_manifest
from rowen.kube.kinds import LEASES
from rowen.kube.objects import replace
from rowen.node_agent.cluster import Cluster

NODE, OTHER = "node-a", "node-b"
_POLICY_SECONDS = 30.0


def _harvest(name: str) -> dict[str, Any]:
    return {"apiVersion": "rowen.dev/v1alpha1", "kind": "NodeHarvest", "metadata": {"name": name}}


def token_kubeconfig(server: ApiServer, token: str, path: Path) -> Path:
    """A kubeconfig that shows a bearer token instead of a certificate."""
    config = json.loads(Kubectl(server.kubeconfig).run("config", "view", "--raw", "-o", "json").text)
    config["users"][0]["user"] = {"token": token}
    path.write_text(json.dumps(config))
    return path


@pytest.fixture
def agent(api_server: ApiServer, release: Any) -> Kubectl:
    """kubectl with the token of an agent's pod on NODE."""
    admin = release.kubectl.with_arguments("--namespace=rowen-agent")
    for node in (NODE, OTHER):
        assert admin.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}).ok
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "rowen-agent-x"},
        "spec": {
            "nodeName": NODE,
            "serviceAccountName": "rowen-agent",
            "containers": [{"name": "agent", "image": "a:1"}],
        },
    }
    assert admin.apply(pod).ok
    bound = ("--bound-object-kind=Pod", "--bound-object-name=rowen-agent-x")
    token = admin.run("create", "token", "rowen-agent", *bound).text.strip()
    folder = api_server.authority.folder
    return Kubectl(token_kubeconfig(api_server, token, folder / "agent.kubeconfig"))


def _until_refused(agent: Kubectl, name: str) -> str:
    """A policy takes a moment to be enforced after its creation."""
    deadline = time.monotonic() + _POLICY_SECONDS
    while True:
        outcome = agent.apply(_harvest(name), "--dry-run=server")
        if not outcome.ok or time.monotonic() > deadline:
            return outcome.text
        time.sleep(0.2)


async def _report(server: ApiServer, agent: Kubectl, node: str) -> None:
    status = {"updateTime": "2026-01-01T00:00:00Z"}
    client = await open_client(str(agent.kubeconfig))
    try:
        await apply_status(client, {**_harvest(node), "status": status}, manager=AGENT_MANAGER)
    finally:
        await client.close()


async def test_own_node_only(api_server: ApiServer, agent: Kubectl, release: Any) -> None:
    assert 'own node only: on node "node-a" not "node-b"' in _until_refused(agent, OTHER)

    outcome = agent.apply(_harvest(NODE))
    assert outcome.ok, outcome.text
    await _report(api_server, agent, NODE)
    assert release.kubectl.get("nh", NODE)["status"]["updateTime"]

    assert release.kubectl.apply(_harvest(OTHER)).ok
    with pytest.raises(RefusedError, match="own node only"):
        await _report(api_server, agent, OTHER)


async def test_its_own_nodes_heartbeat_only_and_it_goes_with_the_node(
    api_server: ApiServer, agent: Kubectl, release: Any
) -> None:
    _until_refused(agent, OTHER)
    client = await open_client(str(agent.kubeconfig))
    try:
        cluster = Cluster(client, NODE, "rowen-agent")
        for _ in range(2):
            await cluster.renew()
        with pytest.raises(RefusedError, match="own node only"):
            await Cluster(client, OTHER, "rowen-agent").renew()
        assert release.kubectl.apply(beat_manifest("rowen-agent", OTHER, "x", 0.0)).ok
        other = release.kubectl.get("lease", OTHER, "--namespace=rowen-agent")
        with pytest.raises(RefusedError, match="own node only"):
            await replace(client, LEASES, other, manager=AGENT_MANAGER)
    finally:
        await client.close()
    found = release.kubectl.get("lease", NODE, "--namespace=rowen-agent", "--show-managed-fields")["metadata"]
    assert {by["operation"] for by in found["managedFields"]} == {"Apply", "Update"}, "it may renew as it was stored"
    (owner,) = found["ownerReferences"]
    assert owner["uid"] == release.kubectl.get("node", NODE)["metadata"]["uid"]


def test_a_token_without_a_node_writes_nothing(api_server: ApiServer, release: Any, agent: Kubectl) -> None:
    _until_refused(agent, OTHER)
    admin = release.kubectl.with_arguments("--namespace=rowen-agent")
    token = admin.run("create", "token", "rowen-agent").text.strip()
    unbound = Kubectl(token_kubeconfig(api_server, token, api_server.authority.folder / "unbound.kubeconfig"))
    outcome = unbound.apply(_harvest(NODE), "--dry-run=server")
    assert not outcome.ok
    assert "own node only" in outcome.text

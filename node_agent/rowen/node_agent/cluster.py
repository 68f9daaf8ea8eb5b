"""The API server, as far as the agent needs it: its own NodeHarvest and Lease, and its own node's pods."""

import socket
import time
from typing import Any

from rowen.crds.harvest.node_harvest import NodeHarvestSpec, NodeHarvestStatus
from rowen.crds.names import AGENT_MANAGER, API_VERSION
from rowen.kube.client import Client, Raw
from rowen.kube.errors import RefusedError
from rowen.kube.heartbeat import beat_manifest, renewed_beat
from rowen.kube.informer import Informer
from rowen.kube.kinds import LEASES, NODE_HARVESTS, PODS, SELF_REVIEWS
from rowen.kube.listing import uid_of, version_of
from rowen.kube.objects import apply, apply_status, drop_status, post_event, replace
from rowen.node_agent.kubelet.pods import PodView, pod_view

_TIMEOUT_SECONDS = 6.0
"""A slow API server costs a report, not the node's lease: there is time for two heartbeats in it."""
_NODE_UID = "authentication.kubernetes.io/node-uid"
"""What the API server adds to the user of a pod's token."""
_OTHER_RELEASE = "failed to create typed live object"
"""What the API server says of a stored object that its definition does not have so, whatever is applied to it."""


class Cluster:
    """Reads and writes for one node. What is asked of the API server raises `KubeError`."""

    def __init__(self, client: Client, node: str, namespace: str) -> None:
        """`namespace` is the agents' own, where the heartbeats are."""
        self._client = client
        self._node = node
        self._namespace = namespace
        self._holder = socket.gethostname()
        self._owners: list[dict[str, str]] | None = None
        self._beat: Raw | None = None
        self._pods: Informer[PodView] = Informer(client, PODS, pod_view, field_selector=f"spec.nodeName={node}")

    async def follow(self) -> None:
        """Keeps what is known of the node's pods, until it is cancelled."""
        await self._pods.run()

    def _object(self, **rest: Any) -> dict[str, Any]:
        return {"apiVersion": API_VERSION, "kind": "NodeHarvest", "metadata": {"name": self._node}, **rest}

    async def ensure(self) -> NodeHarvestSpec:
        """Makes the NodeHarvest where it is missing; returns its spec.

        A report of another release, in the way of all that this one would write, is taken away.
        """
        try:
            return await self._make()
        except RefusedError as error:
            if _OTHER_RELEASE not in error.message:
                raise
        await drop_status(
            self._client, NODE_HARVESTS, None, self._node, manager=AGENT_MANAGER, timeout_seconds=_TIMEOUT_SECONDS
        )
        return await self._make()

    async def _make(self) -> NodeHarvestSpec:
        manifest = self._object(spec={})
        stored = await apply(
            self._client, NODE_HARVESTS, manifest, manager=AGENT_MANAGER, timeout_seconds=_TIMEOUT_SECONDS
        )
        return NodeHarvestSpec.model_validate(stored.get("spec") or {})

    async def report(self, status: NodeHarvestStatus) -> None:
        """Writes the status."""
        manifest = self._object(status=status.to_wire())
        await apply_status(
            self._client, NODE_HARVESTS, manifest, manager=AGENT_MANAGER, timeout_seconds=_TIMEOUT_SECONDS
        )

    async def renew(self) -> None:
        """Renews the node's heartbeat, and makes it where it is missing."""
        before, seen = self._beat, self._pods.newest()
        stored = await self._written_beat()
        uid, version = uid_of(stored), version_of(stored)
        if before and uid_of(before) != uid:
            # It was deleted, perhaps with a Node that another one of the same name has followed.
            self._owners = None
        # Versions of pods and Leases are etcd's one count of writes: what was seen before this write is lower. Where it
        # is not, the store was put back, or a server has told of it what it was before; a watch from a version that
        # lies ahead would tell nothing for a long time.
        if version < max(seen, version_of(before) if before else -1):
            self._pods.begin_anew()
        self._beat = stored

    async def _written_beat(self) -> Raw:
        """The heartbeat as stored: with a new time only, where nothing else has changed since it was written last."""
        if self._beat and self._owners is not None:
            try:
                return await self._replaced_beat(self._beat)
            except RefusedError as error:
                if error.passes:
                    raise
        if self._owners is None:
            self._owners = await self._own_node()
        manifest = beat_manifest(self._namespace, self._node, self._holder, time.time(), self._owners)
        return await apply(self._client, LEASES, manifest, manager=AGENT_MANAGER, timeout_seconds=_TIMEOUT_SECONDS)

    async def _replaced_beat(self, stored: Raw) -> Raw:
        manifest = renewed_beat(stored, time.time())
        return await replace(self._client, LEASES, manifest, manager=AGENT_MANAGER, timeout_seconds=_TIMEOUT_SECONDS)

    async def _own_node(self) -> list[dict[str, str]]:
        """The Node, whose end is the heartbeat's, as an owner; its token tells a pod, which has no right to read it.

        Nobody, where there is no such token or the API server does not say.
        """
        review = {"apiVersion": SELF_REVIEWS.api_version, "kind": SELF_REVIEWS.kind}
        try:
            found = await self._client.call("POST", SELF_REVIEWS.path(), body=review, timeout_seconds=_TIMEOUT_SECONDS)
        except RefusedError as error:
            if error.passes:
                raise
            return []
        uids = (found.get("status", {}).get("userInfo", {}).get("extra") or {}).get(_NODE_UID) or []
        return [{"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": uid} for uid in uids[:1]]

    async def event(self, pod: PodView, reason: str, message: str) -> None:
        """Tells a pod's users what became of it; that they know already is no error."""
        metadata = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        owner = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        now = time.time()
        await post_event(
            self._client, owner, type="Warning", reason=reason, message=message, component=AGENT_MANAGER, now=now
        )

    def known_pods(self) -> list[PodView]:
        """The node's pods as last heard."""
        return self._pods.values()

    async def pods(self) -> list[PodView]:
        """The node's pods as the API server has them in its memory: by a watch, or a list while that tells nothing."""
        return self.known_pods() if self._pods.follows() else await self.list_pods()

    async def list_pods(self) -> list[PodView]:
        """The same, asked for."""
        await self._pods.refresh(_TIMEOUT_SECONDS)
        return self.known_pods()

    async def pod(self, uid: str) -> PodView | None:
        """The pod of that UID; None where the API server does not have it."""
        found = next((pod for pod in self.known_pods() if pod.uid == uid), None)
        return found or next((pod for pod in await self.list_pods() if pod.uid == uid), None)

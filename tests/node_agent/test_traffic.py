"""What a quiet node costs a real API server."""

import asyncio
import os
import time
from collections import Counter

from manifests import apply

from rowen.kube.heartbeat import read_beat
from rowen.kube.kinds import LEASES, NODE_HARVESTS
from rowen.kube.objects import get
from rowen.node_agent.agent import Agent
from rowen.node_agent.cluster import Cluster
from rowen.node_agent.config import CpuDeviceConfig, Settings
from rowen.node_agent.node import Node


class Counting:
    """Passes calls on, and counts them by method and resource."""

    def __init__(self, client):
        self.client, self.calls = client, Counter()

    async def call(self, method, path, **arguments):
        answer = await self.client.call(method, path, **arguments)
        self.calls[method, next(plural for plural in ("leases", "nodeharvests", "pods", "") if plural in path)] += 1
        return answer

    def lines(self, *arguments):
        self.calls["WATCH", ""] += 1
        return self.client.lines(*arguments)


async def test_a_quiet_node_renews_its_lease_and_reports_nothing_anew(kube, namespace, kubelet, folder, monkeypatch):
    monkeypatch.setattr("rowen.node_agent.agent.HEARTBEAT_SECONDS", 0.5)
    name = f"node-of-{namespace}"
    harvest = {"apiVersion": "rowen.dev/v1alpha1", "kind": "NodeHarvest", "metadata": {"name": name}}
    await apply(kube, {**harvest, "spec": {"intervalSeconds": 1}}, manager="test")
    settings = Settings(
        node=name, run_directory=folder / "run", device_plugins=kubelet.folder, pod_resources=kubelet.pod_resources
    )
    node = Node(settings, [CpuDeviceConfig(id="cpu1", cpus=str(max(os.sched_getaffinity(0))), memory="1Gi")])
    client = Counting(kube)
    agent = Agent(settings, node, Cluster(client, name, namespace))
    task = asyncio.create_task(agent.run())
    try:
        end = time.monotonic() + 30
        while client.calls["PUT", "leases"] < 5:
            assert time.monotonic() < end, client.calls
            await asyncio.sleep(0.1)
        lists = client.calls["GET", "pods"]
        reported = (await get(kube, NODE_HARVESTS, None, name))["status"]["updateTime"]
        # The object, and the first report.
        assert client.calls["PATCH", "nodeharvests"] == 2, client.calls
        first = read_beat(await get(kube, LEASES, namespace, name))
        while client.calls["PUT", "leases"] < 7:
            assert time.monotonic() < end, client.calls
            await asyncio.sleep(0.1)
        assert read_beat(await get(kube, LEASES, namespace, name)).renewed > first.renewed
        assert (await get(kube, NODE_HARVESTS, None, name))["status"]["updateTime"] == reported
        assert agent.unready() is None
        # The first one makes it.
        assert client.calls["PATCH", "leases"] == 1, client.calls
        # Its pods come out of one watch, and are not listed again.
        assert (client.calls["WATCH", ""], client.calls["GET", "pods"]) == (1, lists), client.calls
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        node.close()

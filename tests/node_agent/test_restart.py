"""An agent that is started anew, beside what the one before has left on a real API server."""

import asyncio
import contextlib
import os
import time

from rowen.kube.heartbeat import read_beat
from rowen.kube.kinds import LEASES, NODE_HARVESTS
from rowen.kube.objects import get
from rowen.node_agent.agent import Agent
from rowen.node_agent.cluster import Cluster
from rowen.node_agent.config import CpuDeviceConfig, Settings
from rowen.node_agent.node import Node


class Noting:
    """Passes calls on, and notes what was written."""

    def __init__(self, client):
        self.client, self.written = client, []

    async def call(self, method, path, **arguments):
        answer = await self.client.call(method, path, **arguments)
        if method in ("PATCH", "PUT"):
            self.written.append("beat" if "leases" in path else "report" if path.endswith("/status") else "object")
        return answer

    def lines(self, *arguments):
        return self.client.lines(*arguments)


@contextlib.asynccontextmanager
async def running(settings, namespace, client):
    node = Node(settings, [CpuDeviceConfig(id="cpu1", cpus=str(max(os.sched_getaffinity(0))), memory="1Gi")])
    task = asyncio.create_task(Agent(settings, node, Cluster(client, settings.node, namespace)).run())
    try:
        end = time.monotonic() + 60
        while client.written.count("beat") < 2:
            assert time.monotonic() < end, client.written
            await asyncio.sleep(0.1)
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        node.close()


async def test_a_new_agent_reports_and_then_renews_the_lease_of_the_one_before(
    kube, namespace, kubelet, folder, monkeypatch
):
    monkeypatch.setattr("rowen.node_agent.agent.HEARTBEAT_SECONDS", 0.5)
    name = f"node-of-{namespace}"
    settings = Settings(
        node=name, run_directory=folder / "run", device_plugins=kubelet.folder, pod_resources=kubelet.pod_resources
    )
    async with running(settings, namespace, Noting(kube)):
        pass
    left = await get(kube, LEASES, namespace, name)
    reported = (await get(kube, NODE_HARVESTS, None, name))["status"]["updateTime"]
    client = Noting(kube)
    async with running(settings, namespace, client):
        # What the one before has reported stands no more.
        assert client.written[:3] == ["object", "report", "beat"]
        now = await get(kube, LEASES, namespace, name)
        assert now["metadata"]["uid"] == left["metadata"]["uid"]
        assert read_beat(now).renewed > read_beat(left).renewed
        assert (await get(kube, NODE_HARVESTS, None, name))["status"]["updateTime"] > reported

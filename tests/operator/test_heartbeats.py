"""An operator process goes by the nodes' heartbeats, whatever their clocks say."""

import time

import pytest
from beats import beating
from manifests import apply, apply_status
from operator_builders import placed
from operator_cluster import ROWEN, FakeCluster
from operator_process import AGENTS, OperatorProcess

from rowen.kube.heartbeat import beat_manifest

HOUR = 3600.0


@pytest.mark.parametrize("ahead", [-HOUR, HOUR])
async def test_a_pod_is_made_once_its_node_is_heard(
    operator: OperatorProcess, cluster: FakeCluster, ahead: float
) -> None:
    node = f"node-{cluster.namespace}"
    await cluster.create_job()
    status = placed("a1", node=node, renewed=time.time() - HOUR, made=time.time() - HOUR)
    job = {"apiVersion": ROWEN, "kind": "OfflineJob", "metadata": {"name": "job", "namespace": cluster.namespace}}
    await apply_status(cluster.client, {**job, "status": status}, manager="rowen.dev/scheduler")
    await cluster.wait_condition("Running", "LeaseExpired")

    async def beat() -> None:
        await apply(cluster.client, beat_manifest(AGENTS, node, "agent", time.time() + ahead), manager="agent")

    async with beating(beat):
        await cluster.wait_pod("job-1")

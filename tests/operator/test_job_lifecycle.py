"""An OfflineJob from its creation to its end, against a real API server."""

import json

from operator_cluster import FakeCluster, find
from operator_process import OperatorProcess, eventually

DONE = json.dumps(
    {"reason": "Completed", "message": "loss 3.1 -> 2.2", "unit": "steps", "completed": 40, "total": 40}
)


async def test_runs_where_it_is_assigned_and_completes(operator: OperatorProcess, cluster: FakeCluster) -> None:
    await cluster.create_job()
    waiting = await cluster.wait_condition("Running", "NotPlaced")
    assert waiting["status"]["state"] == "Pending"
    await cluster.place()
    pod = await cluster.wait_pod("job-1")
    terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms["nodeSelectorTerms"] == [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
    ]
    assert pod["spec"]["containers"][0]["resources"]["limits"]["rowen.dev/harvest"] == "1"
    await cluster.run_pod("job-1")
    running = await cluster.wait_condition("Running", "Running")
    assert running["status"]["state"] == "Running"
    assert find(running, "Placed")["status"] == "True"
    await cluster.end_pod("job-1", 0, DONE)
    done = await cluster.wait_condition("Finished", "Completed")
    assert done["status"]["state"] == "Completed"
    assert done["status"]["result"] == "loss 3.1 -> 2.2"
    assert done["status"]["progress"]["completed"] == 40
    assert done["status"]["assignment"]["id"] == "a1"
    await eventually(lambda: _has(cluster, "Completed"))


async def _has(cluster: FakeCluster, reason: str) -> bool:
    return reason in await cluster.events()

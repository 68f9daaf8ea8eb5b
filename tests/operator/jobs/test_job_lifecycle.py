"""An OfflineJob from its creation to its end, against a real API server."""

import json
from pathlib import Path

from apiserver import ApiServer
from operator_cluster import FakeCluster, find
from operator_process import OperatorProcess, eventually, grant

from rowen.kube.client import Client

DONE = json.dumps({"reason": "Completed", "message": "loss 3.1 -> 2.2", "unit": "steps", "completed": 40, "total": 40})


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


async def test_an_eviction_is_no_failure(operator: OperatorProcess, cluster: FakeCluster) -> None:
    await cluster.create_job()
    await cluster.place()
    await cluster.wait_pod("job-1")
    await cluster.run_pod("job-1")
    await cluster.wait_condition("Running", "Running")
    await cluster.evict()
    await eventually(lambda: _deleting(cluster, "job-1"))
    await cluster.place(id_="a2", node="node-2")
    await cluster.wait_condition("Running", "Stopping")
    assert await cluster.pod("job-2") is None, "two workers must never write to one output"
    await cluster.end_pod("job-1", 143)
    await cluster.reap("job-1")
    second = await cluster.wait_pod("job-2")
    assert second["metadata"]["annotations"]["rowen.dev/assignment"] == "a2"
    job = await cluster.wait_condition("Running", "Starting")
    assert (job["status"]["attempts"], job["status"]["failures"]) == (2, 0)


async def test_fails_at_once_on_a_user_error(operator: OperatorProcess, cluster: FakeCluster) -> None:
    await cluster.create_job()
    await cluster.place()
    await cluster.wait_pod("job-1")
    await cluster.run_pod("job-1")
    said = {"reason": "DatasetMalformed", "message": "line 3", "unit": "steps", "completed": 0, "total": 0}
    await cluster.end_pod("job-1", 64, json.dumps(said))
    job = await cluster.wait_condition("Finished", "DatasetMalformed")
    assert job["status"]["state"] == "Failed"
    assert "line 3" in find(job, "Finished")["message"]


async def test_retries_after_a_crash(operator: OperatorProcess, cluster: FakeCluster) -> None:
    await cluster.create_job(backoffLimit=1)
    await cluster.place()
    await cluster.wait_pod("job-1")
    await cluster.run_pod("job-1")
    await cluster.end_pod("job-1", 1, "Traceback: boom", ago=3600)
    await cluster.wait_pod("job-2")
    await cluster.run_pod("job-2")
    await cluster.end_pod("job-2", 1, "Traceback: boom")
    job = await cluster.wait_condition("Finished", "Failed")
    assert job["status"]["failures"] == 2
    assert "backoffLimit is 1" in find(job, "Finished")["message"]
    assert "boom" in find(job, "Finished")["message"]


async def test_a_restarted_operator_goes_on(
    api_server: ApiServer, kube: Client, cluster: FakeCluster, tmp_path: Path
) -> None:
    await grant(kube)
    first = OperatorProcess(api_server, tmp_path / "first.log")
    with first:
        await cluster.create_job(backoffLimit=1)
        await cluster.place()
        await cluster.wait_pod("job-1")
        await cluster.run_pod("job-1")
        await cluster.wait_condition("Running", "Running")
        first.kill()
    await cluster.end_pod("job-1", 1, ago=3600)
    with OperatorProcess(api_server, tmp_path / "second.log"):
        await cluster.wait_pod("job-2")
        job = await cluster.wait_condition("Running", "Starting")
        assert (job["status"]["attempts"], job["status"]["failures"]) == (2, 1)


async def test_a_deadline_runs_on_while_no_operator_does(
    api_server: ApiServer, kube: Client, cluster: FakeCluster, tmp_path: Path
) -> None:
    await grant(kube)
    first = OperatorProcess(api_server, tmp_path / "first.log")
    with first:
        await cluster.create_job(activeDeadlineSeconds=3600)
        await cluster.place()
        await cluster.wait_pod("job-1")
        await cluster.run_pod("job-1")
        running = await cluster.wait_condition("Running", "Running")
        first.kill()
    await cluster.patch("offlinejobs/job", {"spec": {"activeDeadlineSeconds": 1}}, "rowen.dev/v1alpha1")
    with OperatorProcess(api_server, tmp_path / "second.log"):
        job = await cluster.wait_condition("Finished", "DeadlineExceeded")
        since = find(running, "Suspended")["lastTransitionTime"]
        assert find(job, "Finished")["message"] == f"active since {since}, activeDeadlineSeconds is 1"
        await eventually(lambda: _deleting(cluster, "job-1"))


async def test_suspending_removes_the_pod_and_resuming_brings_the_next(
    operator: OperatorProcess, cluster: FakeCluster
) -> None:
    await cluster.create_job()
    await cluster.place()
    await cluster.wait_pod("job-1")
    await cluster.patch("offlinejobs/job", {"spec": {"suspend": True}}, "rowen.dev/v1alpha1")
    await cluster.wait_condition("Suspended", "Suspended")
    await eventually(lambda: _gone(cluster, "job-1"))
    await cluster.patch("offlinejobs/job", {"spec": {"suspend": False}}, "rowen.dev/v1alpha1")
    await cluster.wait_pod("job-2")


async def test_a_finished_job_goes_after_its_time_to_live(operator: OperatorProcess, cluster: FakeCluster) -> None:
    await cluster.create_job(ttlSecondsAfterFinished=0)
    await cluster.place()
    await cluster.wait_pod("job-1")
    await cluster.run_pod("job-1")
    await cluster.end_pod("job-1", 0, DONE)
    await eventually(lambda: _job_gone(cluster))


async def test_a_deleted_job_leaves_nothing(
    operator: OperatorProcess, controller_manager: None, cluster: FakeCluster
) -> None:
    await cluster.create_job()
    await cluster.place()
    await cluster.wait_pod("job-1")
    await cluster.delete("offlinejobs/job", "rowen.dev/v1alpha1")
    await eventually(lambda: _gone(cluster, "job-1"))


async def test_tells_what_kube_scheduler_says(operator: OperatorProcess, cluster: FakeCluster) -> None:
    await cluster.create_job()
    await cluster.place()
    await cluster.wait_pod("job-1")
    said = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": '0/2 nodes are available: persistentvolumeclaim "data" not found.',
    }
    await cluster.pod_status("job-1", "Pending", conditions=[said])
    job = await cluster.wait_condition("Running", "Unschedulable")
    assert 'persistentvolumeclaim "data" not found' in find(job, "Running")["message"]
    assert job["status"]["state"] == "Unschedulable"
    assert job["status"]["failures"] == 0


async def test_a_template_that_is_no_pod_fails_with_the_servers_words(
    operator: OperatorProcess, cluster: FakeCluster
) -> None:
    await cluster.create_job(template={"spec": {"containers": [{"name": "worker", "imag": "busybox"}]}})
    await cluster.place()
    job = await cluster.wait_condition("Finished", "InvalidTemplate")
    assert 'unknown field "spec.template.spec.containers[0].imag"' in find(job, "Finished")["message"]


async def test_a_forbidden_pod_is_told_and_tried_again(operator: OperatorProcess, cluster: FakeCluster) -> None:
    container = {"name": "worker", "image": "busybox"}
    await cluster.create_job(template={"spec": {"containers": [container]}})
    await cluster.place()
    job = await cluster.wait_condition("Running", "PodForbidden")
    assert "violates PodSecurity" in find(job, "Running")["message"]
    assert find(job, "Finished")["status"] == "False"


async def test_leaves_a_foreign_pod_of_the_same_name_alone(operator: OperatorProcess, cluster: FakeCluster) -> None:
    await cluster.create_foreign_pod("job-1")
    await cluster.create_job()
    await cluster.place()
    job = await cluster.wait_condition("Running", "NameTaken")
    assert "pod job-1 exists" in find(job, "Running")["message"].lower()
    foreign = await cluster.pod("job-1")
    assert foreign is not None
    assert "labels" not in foreign["metadata"]


async def test_leaves_a_job_of_another_controller_alone(operator: OperatorProcess, cluster: FakeCluster) -> None:
    await cluster.create_job("theirs", managedBy="example.com/queue")
    await cluster.create_job("ours")
    await cluster.wait_condition("Running", "NotPlaced", name="ours")
    theirs = await cluster.job("theirs")
    assert theirs is not None
    assert "status" not in theirs


async def test_serves_health_and_metrics(operator: OperatorProcess, cluster: FakeCluster) -> None:
    await cluster.create_job()
    await cluster.wait_condition("Running", "NotPlaced")
    health = await operator.get(operator.health_port, "/healthz")
    assert health.status_code == 200
    assert "rowen_last_event_age_seconds" in await _metrics(operator)
    # Counted a moment after the status was written.
    await eventually(lambda: _counted(operator, 'rowen_reconciles_total{kind="OfflineJob",result="ok"}'))


async def _metrics(operator: OperatorProcess) -> str:
    return (await operator.get(operator.metrics_port, "/metrics")).text


async def _counted(operator: OperatorProcess, series: str) -> bool:
    return series in await _metrics(operator)


async def _deleting(cluster: FakeCluster, name: str) -> bool:
    pod = await cluster.pod(name)
    return pod is not None and "deletionTimestamp" in pod["metadata"]


async def _gone(cluster: FakeCluster, name: str) -> bool:
    return await cluster.pod(name) is None


async def _job_gone(cluster: FakeCluster) -> bool:
    return await cluster.job() is None

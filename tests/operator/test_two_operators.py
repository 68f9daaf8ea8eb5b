"""Of two operators one works and the other stands by, until the lease is free."""

import asyncio
from pathlib import Path

import pytest
from apiserver import ApiServer
from kube.odd import Odd, served
from operator_builders import job_manifest
from operator_cluster import FakeCluster
from operator_process import OperatorProcess, eventually, grant

from rowen.kube.client import Client
from rowen.kube.election import LostLeaseError
from rowen.operator.decision import Removal
from rowen.operator.settings import Settings
from rowen.operator.world import cluster as module
from rowen.operator.world.cluster import Cluster


async def test_the_second_one_stands_by_and_takes_over(
    api_server: ApiServer, kube: Client, cluster: FakeCluster, tmp_path: Path
) -> None:
    await grant(kube)
    logs = [tmp_path / "first.log", tmp_path / "second.log"]
    second = OperatorProcess(api_server, logs[1])

    async def leads(log: Path) -> bool:
        return '"event": "leading"' in await asyncio.to_thread(log.read_text)

    with OperatorProcess(api_server, logs[0]):
        await eventually(lambda: leads(logs[0]))
        second.__enter__()
        # It watches, and answers its probes, without the lease.
        await eventually(second.healthy)
        await cluster.create_job("one")
        await cluster.wait_condition("Running", "NotPlaced", name="one")
        assert not await leads(logs[1])
        assert await leading(second) == 0.0
    try:
        await eventually(lambda: leads(logs[1]))
        await cluster.create_job("two")
        await cluster.wait_condition("Running", "NotPlaced", name="two")
        assert await leading(second) == 1.0
    finally:
        second.__exit__()


async def leading(operator: OperatorProcess) -> float:
    """What it tells Prometheus."""
    told = (await operator.get(operator.metrics_port, "/metrics")).text
    return next(float(line.split()[1]) for line in told.splitlines() if line.startswith("rowen_leading "))


@pytest.mark.parametrize(("given", "found"), [("rowen-system", "rowen-system"), (None, "here")])
async def test_the_lease_is_in_the_pods_own_namespace(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str | None, found: str
) -> None:
    asked: list[str] = []

    async def noted(_client: Client, namespace: str, *_: object) -> None:
        asked.append(namespace)

    async def work() -> None:
        pass

    if given:
        monkeypatch.setenv("POD_NAMESPACE", given)
    monkeypatch.setattr(module, "lead", noted)
    async with await Odd(tmp_path, url="http://127.0.0.1:1").client() as client:
        await Cluster(client).lead(Settings(runtime_image="i").namespace, work)
    assert asked == [found]


async def test_nothing_is_changed_once_the_lease_has_run_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def lost() -> None:
        raise LostLeaseError("too late")

    monkeypatch.setattr(module, "ensure_held", lost)
    job = job_manifest()
    async with served(tmp_path) as odd, await odd.client() as client:
        cluster = Cluster(client)
        for write in (
            cluster.apply({"kind": "Deployment", "metadata": job["metadata"]}),
            cluster.create_pod({"kind": "Pod", "metadata": job["metadata"]}),
            cluster.write_status(job, {}),
            cluster.remove_pod("team", Removal("pod", "uid", "")),
            cluster.delete_job(job),
        ):
            with pytest.raises(LostLeaseError):
                await write
        assert odd.asked == []

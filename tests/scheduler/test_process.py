"""`python -m rowen.scheduler` as the chart runs it: its own process, its own rights."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import yaml
from accounts import account, allow, rule, token
from apiserver import BINARIES, ApiServer, free_port
from scheduler.stage import Clock, Stage, condition
from scheduler.steps import kept

from rowen.kube.client import Client
from rowen.kube.errors import RefusedError
from rowen.kube.kinds import CONFIG_MAPS, LEASES
from rowen.kube.objects import apply, get
from rowen.kube.resource import Resource

CHART = Path(__file__).parents[2] / "charts" / "rowen"
ACCOUNT = "system:serviceaccount:{}:rowen-scheduler"


@pytest.fixture
async def stage(kube: Client, namespace: str) -> AsyncIterator[Stage]:
    made = Stage(kube, namespace, Clock(), agents=f"{namespace}-agents")
    await made.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": made.agents}}, "namespaces")
    await made.service()
    yield made
    await made.clear()


async def grant(stage: Stage) -> None:
    """Applies the chart's rules for the scheduler."""
    if not (BINARIES / "helm").exists():
        pytest.skip(f"no helm in {BINARIES}")
    command = [
        BINARIES / "helm", "template", "rowen", CHART, "--namespace", stage.namespace,
        f"--set=agent.namespace={stage.agents}", "--show-only", "templates/scheduler/rbac.yaml",
        "--kube-version", "1.34.0",
    ]  # fmt: skip
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    rendered, _ = await process.communicate()
    assert process.returncode == 0
    for manifest in yaml.safe_load_all(rendered):
        plural = f"{manifest['kind'].lower()}s"
        await apply(stage.client, Resource(manifest["kind"], manifest["apiVersion"], plural), manifest, manager="test")


async def test_it_runs_with_the_rights_of_its_account_and_ends_on_sigterm(stage: Stage, api_server: ApiServer) -> None:
    await grant(stage)
    port, api_port = free_port(), free_port()
    environment = settings(stage, api_server, port, api_port)
    node = await stage.node("a")
    await stage.tuning("j", sla={"throughputFraction": 0.3})
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rowen.scheduler", env=environment, stderr=subprocess.PIPE
    )
    try:
        await stage.await_job("j", lambda status: bool(status.get("conditions")))
        await stage.beat(node)
        found = await stage.await_job("j", lambda status: "assignment" in status)
        await stage.pod("j-1", node, memory="64Mi", job=found)
        await stage.report(node, tenants=[stage.tenant("j-1", 2500, 25.0)])
        told = await stage.await_job("j", lambda status: condition(status, "Admitted")["reason"] == "Admitted")
        assert told["status"]["throughput"]["soloTokensPerSecond"] == 100.0
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            assert (await client.get("/healthz")).status_code == 200
            assert (
                f'rowen_predicted_fraction{{job="j",namespace="{stage.namespace}"}} 0.8'
                in (await client.get("/metrics")).text
            )
        async with api(api_port) as client:
            assert (await client.get("/metrics")).status_code == 404
            path, headers = f"/v1/explain/{stage.namespace}/j", await reader(stage)
            explained = (await client.get(path, headers=headers)).json()
            assert explained["assignment"]["node"] == node
            assert (await client.get(path)).status_code == 401
            assert (await client.get("/v1/explain/default/j", headers=headers)).status_code == 403
        await config_map(stage)
    finally:
        process.send_signal(signal.SIGTERM)
        _, log = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 0, log.decode()
    assert "Traceback" not in log.decode()
    assert headers["Authorization"].removeprefix("Bearer ") not in log.decode()
    assert '"level": "warning"' not in log.decode(), log.decode()


def api(port: int) -> httpx.AsyncClient:
    """Takes whatever certificate the scheduler has made."""
    return httpx.AsyncClient(base_url=f"https://127.0.0.1:{port}", trust_env=False, verify=False)


async def reader(stage: Stage) -> dict[str, str]:
    """The headers of somebody who may read the namespace's jobs."""
    await account(stage.client, stage.namespace, "reader")
    await allow(stage.client, stage.namespace, "reader", rule("rowen.dev", ["offlinejobs"], ["get", "list"]))
    return {"Authorization": f"Bearer {await token(stage.client, stage.namespace, 'reader')}"}


async def config_map(stage: Stage) -> None:
    """Waits for the stored profiles: the account may write them."""
    for _ in range(100):
        with contextlib.suppress(RefusedError):
            await get(stage.client, CONFIG_MAPS, stage.namespace, "rowen-profiles")
            return
        await asyncio.sleep(0.1)
    pytest.fail("rowen-profiles was not written")


async def test_the_second_stands_by_and_takes_over(stage: Stage, api_server: ApiServer) -> None:
    await grant(stage)
    ports = [(free_port(), free_port()) for _ in range(2)]
    environments = [settings(stage, api_server, *pair) for pair in ports]
    one = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rowen.scheduler", env=environments[0], stderr=subprocess.DEVNULL
    )
    two = None
    node = await stage.node("a")
    try:
        await stage.job("j")
        await stage.beat(node)
        placed = (await stage.await_job("j", lambda status: "assignment" in status))["status"]
        first = await holder(stage)
        two = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "rowen.scheduler", env=environments[1], stderr=subprocess.PIPE
        )
        async with api(ports[1][1]) as client:
            await alive(*ports[1])
            client.headers.update(await reader(stage))
            assert (await client.get(f"/v1/explain/{stage.namespace}/j")).status_code == 503
            assert await holder(stage) == first
            # To a scheduler that sees it for the first time the node has been silent for longer than its own lease.
            stage.clock.offset = -3600.0
            await stage.beat(node)
            one.kill()
            await stage.job("k")
            await stage.await_job("k", lambda status: bool(status.get("conditions")))
            async with stage.alive(node):
                await asyncio.sleep(4.0)
            assert kept((await stage.get_job("j"))["status"], placed["assignment"]["id"])
            assert await holder(stage) not in ("", first)
            assert (await client.get(f"/v1/explain/{stage.namespace}/j")).status_code == 200
    finally:
        for process in filter(None, (one, two)):
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await asyncio.wait_for(process.communicate(), 20)
    assert two.returncode == 0
    assert await holder(stage) == "", "it is given back"


def settings(stage: Stage, api_server: ApiServer, port: int, api_port: int) -> dict[str, str]:
    return os.environ | {
        "KUBECONFIG": str(api_server.kubeconfig_for(ACCOUNT.format(stage.namespace))),
        "POD_NAMESPACE": stage.namespace,
        "ROWEN_AGENT_NAMESPACE": stage.agents,
        "ROWEN_SCHEDULER_PORT": str(port),
        "ROWEN_SCHEDULER_API_PORT": str(api_port),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }


async def holder(stage: Stage) -> str:
    found = await get(stage.client, LEASES, stage.namespace, "rowen-scheduler")
    return str(found["spec"].get("holderIdentity", ""))


async def alive(port: int, api_port: int) -> None:
    """Waits until it serves on both ports."""
    async with httpx.AsyncClient(trust_env=False) as client, api(api_port) as asked:
        for _ in range(300):
            with contextlib.suppress(httpx.TransportError):
                told = await client.get(f"http://127.0.0.1:{port}/healthz"), await asked.get("/v1/explain/a/j")
                if [answer.status_code for answer in told] == [200, 401]:
                    return
            await asyncio.sleep(0.1)
    pytest.fail("it does not serve")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("PORT", "none", "ROWEN_SCHEDULER_PORT: Input should be a valid integer"),
        ("TLS_FOLDER", "/none/at/all", "ROWEN_SCHEDULER_TLS_FOLDER (/none/at/all): [Errno 2] No such file"),
    ],
)
async def test_wrong_settings_end_it_with_a_message(name: str, value: str, told: str) -> None:
    environment = os.environ | {
        f"ROWEN_SCHEDULER_{name}": value,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rowen.scheduler", env=environment, stderr=subprocess.PIPE
    )
    _, log = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 2
    assert "wrong settings" in log.decode()
    assert told in log.decode()
    assert "Traceback" not in log.decode()

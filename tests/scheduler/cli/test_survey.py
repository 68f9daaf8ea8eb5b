"""`kubectl rowen status` and `top`."""

import asyncio
import io
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from accounts import account, allow, rule
from apiserver import ApiServer
from operator_builders import NOW, online, report_manifest
from operator_builders import device as reported
from rich.console import Console
from scheduler.cli.commands import failed, invoke
from scheduler.cli.test_whatif import kubeconfig
from scheduler.stage import Clock, Stage

from rowen.crds.names import API_VERSION, NODE_LEASE_SECONDS
from rowen.kube.client import Client
from rowen.kube.kinds import LEASES, NODE_HARVESTS, OFFLINE_JOBS, ONLINE_SERVICES
from rowen.kube.objects import apply, apply_status
from rowen.kube.timestamps import rfc3339
from rowen.scheduler.cli import survey
from rowen.scheduler.cli.heartbeats import heartbeat_fields
from rowen.scheduler.cli.survey import Overview
from rowen.scheduler.cli.tables import cut, device_lines, show_overview

SPATIAL = {"share": 0.375, "openFraction": 0.25}
POOL = {"fixed": 2**20, "used": 3 * 2**20, "ahead": 0, "offline": 2**29, "free": 5}


@pytest.fixture
async def stage(kube: Client, namespace: str) -> AsyncIterator[Stage]:
    made = Stage(kube, namespace, Clock())
    await made.alone()
    await made.service()
    yield made
    await made.clear()


async def job_in(stage: Stage, name: str, *conditions: str) -> None:
    """A job whose status has these conditions, all True."""
    await stage.job(name)
    stamp = rfc3339(time.time())
    entries = [
        {"type": type_, "status": "True", "reason": "Test", "message": "", "lastTransitionTime": stamp}
        for type_ in conditions
    ]
    meta = {"name": name, "namespace": stage.namespace}
    state = {"conditions": entries, "state": "Running" if conditions else "Pending"}
    body = {"apiVersion": API_VERSION, "kind": "OfflineJob", "metadata": meta, "status": state}
    await apply_status(stage.client, OFFLINE_JOBS, body, manager="test")


async def lease(stage: Stage, name: str, holder: str, renewed: float) -> None:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": rfc3339(renewed, "microseconds")}
    meta = {"name": name, "namespace": stage.namespace}
    manifest = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
    await apply(stage.client, LEASES, manifest, manager="test")


async def told(monkeypatch: pytest.MonkeyPatch, api_server: ApiServer, stage: Stage, *arguments: str) -> dict[str, Any]:
    text = await asyncio.to_thread(
        invoke, monkeypatch, api_server.kubeconfig, "status", "-o", "json", "--system-namespace", stage.namespace,
        "--agent-namespace", stage.namespace, *arguments,
    )  # fmt: skip
    return dict(json.loads(text))


async def test_the_cluster_in_a_few_figures(
    stage: Stage, api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await stage.node("a")
    await stage.report(node, idle=0.75)
    await job_in(stage, "one", "Running")
    await job_in(stage, "two", "Running")
    await job_in(stage, "three")
    await stage.job("four")
    met = {
        "type": "SLOMet", "status": "False", "reason": "Missed", "message": "", "lastTransitionTime": rfc3339(0.0),
    }  # fmt: skip
    ttft = {"percentile": 99, "valueSeconds": 0.25, "targetSeconds": 0.2, "display": "250.0ms"}
    meta = {"name": "chat", "namespace": stage.namespace}
    body = {"apiVersion": API_VERSION, "kind": "OnlineService", "metadata": meta}
    full = {"conditions": [met], "replicas": 2, "readyReplicas": 1, "ttft": ttft}
    await apply_status(stage.client, ONLINE_SERVICES, {**body, "status": full}, manager="test")
    await lease(stage, "rowen-scheduler", "pod-1", time.time())
    await lease(stage, "rowen-operator", "pod-2", time.time() - 100.0)

    found = await told(monkeypatch, api_server, stage, "-n", stage.namespace)
    assert found["jobs"] == {"New": 1, "Pending": 1, "Running": 2}
    assert (found["namespace"], found["unread"]) == (stage.namespace, [])
    assert found["leaders"]["scheduler"] == "pod-1"
    assert found["leaders"]["operator"].startswith("nobody: pod-2 renewed the lease last 10")
    (row,) = [entry for entry in found["nodes"] if entry["name"] == node]
    assert (row["devices"], row["idle"], row["harvested"], row["tenants"]) == (1, "75%", "0%", 0)
    assert found["services"] == [
        {
            "namespace": stage.namespace, "name": "chat", "replicas": 2, "ready": 1, "sloMet": "False",
            "ttft": "250.0ms", "tpot": None, "mode": "Preempt", "harvest": "Unknown", "harvested": None,
        }
    ]  # fmt: skip

    everywhere = await told(monkeypatch, api_server, stage, "-A")
    assert everywhere["namespace"] is None
    assert everywhere["jobs"]["Running"] >= 2
    text = await asyncio.to_thread(invoke, monkeypatch, api_server.kubeconfig, "status", "-n", stage.namespace)
    assert f"jobs in namespace {stage.namespace}: 1 New, 1 Pending, 2 Running" in text
    assert node in text
    assert "250.0ms" in text


async def test_a_user_of_one_namespace_gets_what_they_may_read(
    stage: Stage, api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await account(stage.client, stage.namespace, "ann")
    await allow(
        stage.client, stage.namespace, "ann", rule("rowen.dev", ["offlinejobs", "onlineservices"], ["get", "list"])
    )
    ann = await kubeconfig(stage, api_server, "ann")
    await job_in(stage, "one", "Running")
    found = json.loads(await asyncio.to_thread(invoke, monkeypatch, ann, "status", "-o", "json"))
    assert (found["namespace"], found["jobs"], found["nodes"]) == (stage.namespace, {"Running": 1}, [])
    assert [entry["name"] for entry in found["services"]] == ["chat"]
    assert found["leaders"] == {"scheduler": "not known", "operator": "not known"}
    assert any("nodeharvests" in reason for reason in found["unread"])
    text = await asyncio.to_thread(invoke, monkeypatch, ann, "status")
    assert "not shown: nodeharvests.rowen.dev is forbidden" in text
    for arguments in (["status", "-A"], ["status", "-n", "default"], ["top"]):
        line = await asyncio.to_thread(failed, monkeypatch, ann, *arguments)
        assert f"serviceaccount:{stage.namespace}:ann" in line


async def test_a_namespace_that_is_not_there_is_told(
    stage: Stage, api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not to who may not know; one that has nothing in it is there."""
    line = await asyncio.to_thread(failed, monkeypatch, api_server.kubeconfig, "status", "-n", "nope")
    assert line == "error: there is no namespace nope"
    assert "none" in await asyncio.to_thread(invoke, monkeypatch, api_server.kubeconfig, "status", "-n", "kube-system")
    await account(stage.client, stage.namespace, "ann")
    await allow(stage.client, stage.namespace, "ann", rule("rowen.dev", ["offlinejobs"], ["list"]))
    config = await kubeconfig(stage, api_server, "ann")
    await stage.delete(API_VERSION, "onlineservices/chat", stage.namespace)
    told = await asyncio.to_thread(invoke, monkeypatch, config, "status", "-n", stage.namespace)
    assert f"jobs in namespace {stage.namespace}: none" in told


def test_what_excludes_one_another(api_server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "exclude one another" in failed(monkeypatch, api_server.kubeconfig, "status", "-A", "-n", "default")
    assert "not with -o json" in failed(monkeypatch, api_server.kubeconfig, "top", "--watch", "-o", "json")
    for command in ("status", "top"):
        assert "there is no /none" in failed(monkeypatch, "/none", command)


async def test_every_device_with_whose_its_memory_is(
    stage: Stage, api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await stage.node("a")
    found = await stage.client.call("GET", NODE_HARVESTS.path(None, node))
    (device,) = found["status"]["devices"]
    tenant = stage.tenant("j-1", 1, 1.0) | {"job": "j"}
    status = {**found["status"], "devices": [{**device, "pool": POOL, "spatial": SPATIAL, "tenants": [tenant]}]}
    body = {"apiVersion": API_VERSION, "kind": "NodeHarvest", "metadata": {"name": node}, "status": status}
    await apply_status(stage.client, NODE_HARVESTS, body, manager="test")
    listed = json.loads(await asyncio.to_thread(invoke, monkeypatch, api_server.kubeconfig, "top", "-o", "json"))
    (row,) = [entry for entry in listed if entry["node"] == node]
    assert (row["device"], row["idle"], row["harvested"], row["pool"]) == ("cpu0", 0.8, 0.0, POOL)
    assert (row["service"], row["tenants"]) == (f"{stage.namespace}/chat", [f"{stage.namespace}/j"])
    assert row["spatial"] == SPATIAL
    share = ["38%,", "25%", "of", "the", "time"]
    who = [f"{stage.namespace}/j", "(shares)"]
    short = [node, "cpu0", "cpu", "80%", "0%", "-", f"{stage.namespace}/chat", "-", *share, *who]
    for arguments, memory in ((["--node", node], []), (["-o", "wide"], ["1Mi", "3Mi", "0", "512Mi", "5"])):
        text = await asyncio.to_thread(invoke, monkeypatch, api_server.kubeconfig, "top", *arguments)
        (line,) = [line for line in text.splitlines() if line.startswith(node)]
        assert line.split() == [*short, *memory]
    told = await asyncio.to_thread(failed, monkeypatch, api_server.kubeconfig, "top", "--node", "nowhere")
    assert "there is no NodeHarvest nowhere" in told


LONG = "ip-192-168-101-202.eu-central-1.compute.internal"


def device(node: str) -> dict[str, Any]:
    return {
        "node": node, "device": "gpu0", "type": "nvidia-h200", "harvestable": True, "idle": 0.5, "harvested": 0.25,
        "pool": POOL, "service": "team/chat", "tenants": ["team-b/one", "team-b/two"],
        "riders": [], "sharers": [], "coServing": None, "spatial": None, "heartbeatSecondsAgo": 28.4, "silent": True,
    }  # fmt: skip


def test_a_device_is_one_line_however_narrow_the_terminal_is() -> None:
    assert device_lines([device(LONG)]) == [
        f"NODE{' ' * 44}   DEVICE   TYPE          IDLE   HARVESTED   HEARTBEAT      SERVICE     SEATS   SHARE   "
        "TENANTS",
        f"{LONG}   gpu0     nvidia-h200   50%    25%         28s (silent)   team/chat   -       -       "
        "team-b/one,team-b/two",
    ]
    heading, row = device_lines([device(LONG)], wide=True)
    assert heading.split()[-5:] == ["FIXED", "ONLINE", "AHEAD", "OFFLINE", "FREE"]
    assert row.split()[-5:] == ["1Mi", "3Mi", "0", "512Mi", "5"]


def test_a_device_says_who_rides_and_how_much() -> None:
    rates = {"seats": 8, "forwardTokensPerSecond": 100.0, "soloTokensPerSecond": 20.0, "rowTokensPerSecond": 3.4}
    ridden = {**device("n"), "riders": ["team-b/one"], "coServing": {**rates, "backwardTokensPerSecond": 120.0}}
    assert device_lines([ridden])[1].endswith("team/chat   1/8, 123 tokens/s   -       team-b/one (rides),team-b/two")
    ended = {**device("n"), "coServing": {**rates, "ended": "out of memory"}}
    assert "   ended: out of memory   " in device_lines([ended])[1]


def test_a_device_says_how_much_of_it_is_open_beside_requests() -> None:
    shared = {**device("n"), "spatial": {"share": 0.4, "openFraction": 0.125}, "sharers": ["team-b/two"]}
    heading, row = device_lines([shared])
    assert row[heading.index("SHARE") :] == "40%, 12% of the time   team-b/one,team-b/two (shares)"


def test_jobs_that_ride_or_are_on_several_devices_share_none() -> None:
    def on(id_: str, *pods: str, spatial: bool = True, **fields: Any) -> dict[str, Any]:
        tenants = [{"pod": f"team/{pod}-1", "job": pod, **fields} for pod in pods]
        told = reported(id_, online=online("chat"), tenants=tenants)
        return told | ({"spatial": SPATIAL} if spatial else {})

    devices = [
        on("cpu0", "alone", "wide"),
        on("cpu1", "wide"),
        on("cpu2", "rider", mode="CoServe"),
        on("cpu3", "closed", spatial=False),
    ]
    rows = survey._devices(report_manifest(*devices), {}, NOW)
    assert [row["sharers"] for row in rows] == [["team/alone"], [], [], []]


def test_a_node_is_one_line_without_a_terminal() -> None:
    row = {
        "name": LONG, "devices": 1, "harvestable": 1, "idle": "9%", "harvested": "0%", "tenants": 0, "lent": None,
        "heartbeatSecondsAgo": 2.0, "silent": False, "reportedSecondsAgo": 61.0,
    }  # fmt: skip
    console = Console(file=io.StringIO(), width=80)
    show_overview(Overview(nodes=[row]), console)
    assert isinstance(console.file, io.StringIO)
    (line,) = [line for line in console.file.getvalue().splitlines() if line.startswith("ip-")]
    assert line.split() == [LONG, "1", "1", "0", "9%", "0%", "-", "2s", "61s"]


def test_what_does_not_fit_on_the_screen_is_counted() -> None:
    lines = [str(number) for number in range(10)]
    assert cut(lines, 10) == lines
    assert cut(lines, 4) == ["0", "1", "2", "7 more: --node shows one node"]


def drawn(what: Any) -> str:
    if not isinstance(what, Overview):
        return "\n".join(device_lines(what))
    console = Console(file=io.StringIO(), width=200)
    show_overview(what, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_markup_in_names_is_no_markup() -> None:
    assert "a [bold] reason" in drawn(Overview(unread=["a [bold] reason"]))


def test_what_is_not_there_or_not_understood_is_told() -> None:
    assert "jobs in all namespaces: none" in drawn(Overview())
    assert "no OnlineService in all namespaces" in drawn(Overview())
    assert "no node reports a device" in drawn([])
    assert "its report is not understood" in drawn([{"node": "n", "problem": "its report is not understood"}])


async def test_silence_is_told_by_the_heartbeat_and_not_by_the_nodes_clock(
    stage: Stage, api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node's clock is an hour behind, in its report and in its heartbeat."""
    stage.clock.offset = -3600.0
    node = await stage.node("a")
    options = ["--agent-namespace", stage.namespace]
    await stage.beat(node)
    found = await told(monkeypatch, api_server, stage)
    (row,) = [entry for entry in found["nodes"] if entry["name"] == node]
    assert row["heartbeatSecondsAgo"] < 600.0 < row["reportedSecondsAgo"]
    assert row["silent"] is (row["heartbeatSecondsAgo"] > NODE_LEASE_SECONDS)
    listed = await asyncio.to_thread(
        invoke, monkeypatch, api_server.kubeconfig, "top", "-o", "json", "--node", node, *options
    )
    assert json.loads(listed)[0]["heartbeatSecondsAgo"] < 600.0
    found = await told(monkeypatch, api_server, stage, "--agent-namespace", "nowhere")
    (row,) = [entry for entry in found["nodes"] if entry["name"] == node]
    assert (row["heartbeatSecondsAgo"], row["silent"]) == (None, None)
    assert any("--agent-namespace" in reason for reason in found["unread"])


@pytest.mark.parametrize(("seconds", "silent"), [(NODE_LEASE_SECONDS, False), (NODE_LEASE_SECONDS + 0.1, True)])
def test_silence_begins_where_the_lease_ends(seconds: float, silent: bool) -> None:
    assert heartbeat_fields("n", {"n": seconds})["silent"] is silent

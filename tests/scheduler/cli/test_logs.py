"""`kubectl rowen logs`: a real API server, and a server in the kubelet's place."""

import asyncio
import ssl
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from apiserver import ApiServer
from manifests import apply, apply_status
from scheduler.cli.commands import failed, invoke
from scheduler.stage import Clock, Stage

from rowen.crds.names import API_VERSION, ATTEMPT_LABEL, JOB_UID_LABEL
from rowen.kube.client import Client
from rowen.kube.kinds import NODES, OFFLINE_JOBS
from rowen.kube.objects import delete
from rowen.kube.timestamps import rfc3339


@pytest.fixture
async def stage(kube: Client, namespace: str) -> AsyncIterator[Stage]:
    made = Stage(kube, namespace, Clock())
    yield made
    await made.clear()


class Kubelet:
    """Answers questions for logs with the pod's and container's name and how it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split()[1]
        self.asked.append(path)
        pod, container = path.partition("?")[0].split("/")[-2:]
        body = f"{pod} {container} one\n{pod} two \N{MICRO SIGN}\n".encode() + b"\xff\nno line end"
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n" + body)
        await writer.drain()
        writer.close()


@pytest.fixture
async def kubelet(api_server: ApiServer, kube: Client) -> AsyncIterator[tuple[str, Kubelet]]:
    """The name of a node, and its kubelet."""
    name, answer = f"n-{uuid.uuid4().hex[:6]}", Kubelet()
    folder = api_server.authority.folder
    api_server.authority.issue("kubelet", "kubelet", server=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "kubelet.crt", folder / "kubelet.key")
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    node: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    await apply(kube, node, manager="test")
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": server.sockets[0].getsockname()[1]}},
    }
    await apply_status(kube, {**node, "status": status}, manager="test")
    yield name, answer
    server.close()
    await delete(kube, NODES, None, name)


async def attempt(stage: Stage, job: str, number: int, node: str, *names: str) -> None:
    """Pods of an attempt."""
    uid = (await stage.get_job(job))["metadata"]["uid"]
    for name in names:
        await stage.pod(name, node, memory="1Mi")
        labels = {JOB_UID_LABEL: uid, ATTEMPT_LABEL: str(number)}
        path = f"/api/v1/namespaces/{stage.namespace}/pods/{name}"
        merge = "application/merge-patch+json"
        await stage.client.call("PATCH", path, body={"metadata": {"labels": labels}}, content_type=merge)


async def test_the_last_attempts_worker_is_read(
    stage: Stage, api_server: ApiServer, kubelet: tuple[str, Kubelet], monkeypatch: pytest.MonkeyPatch
) -> None:
    node, asked = kubelet
    await stage.job("j")
    await attempt(stage, "j", 9, node, "j-9")
    line = await asyncio.to_thread(
        failed, monkeypatch, api_server.kubeconfig, "logs", "j", "-n", stage.namespace, "--previous"
    )
    assert line == "error: j: there is no pod of an attempt before 9"
    await attempt(stage, "j", 10, node, "j-10")
    for options, pod, query in (
        ([], "j-10", ""),
        (["--previous"], "j-9", ""),
        (["--tail", "5"], "j-10", "tailLines=5"),
        (["--follow"], "j-10", "follow=true"),
    ):
        told = await asyncio.to_thread(
            invoke, monkeypatch, api_server.kubeconfig, "logs", "ojob/j", "-n", stage.namespace, *options
        )
        assert told == f"{pod} main one\n{pod} two \N{MICRO SIGN}\n\N{REPLACEMENT CHARACTER}\nno line end\n"
        assert query in asked.asked[-1]


@pytest.mark.parametrize("options", [[], ["-f"]])
async def test_of_several_workers_each_line_names_its_pod(
    stage: Stage,
    api_server: ApiServer,
    kubelet: tuple[str, Kubelet],
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
) -> None:
    await stage.job("j")
    await attempt(stage, "j", 1, kubelet[0], "j-1-a", "j-1-b")
    told = await asyncio.to_thread(
        invoke, monkeypatch, api_server.kubeconfig, "logs", "j", "-n", stage.namespace, *options
    )
    lines = told.splitlines()
    assert len(lines) == 8
    for pod in ("j-1-a", "j-1-b"):
        assert [line for line in lines if line.startswith(f"[{pod}] {pod} main one")]


def condition(type_: str, status: str, reason: str, message: str) -> dict[str, str]:
    return {
        "type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": rfc3339(0.0),
    }  # fmt: skip


PLACED = condition("Placed", "True", "Placed", "placed on n/cpu0")


@pytest.mark.parametrize(
    ("conditions", "told"),
    [
        ([], "j has no pod yet: the scheduler has not looked at it"),
        ([condition("Placed", "False", "Waiting", "no node")], "j has no pod: Waiting: no node"),
        ([PLACED], "j is placed and has no pod yet"),
        (
            [PLACED, condition("Running", "False", "PodForbidden", "quota")],
            "j is placed and has no pod yet: PodForbidden: quota",
        ),
        (
            [PLACED, condition("Finished", "True", "Completed", "")],
            "j has finished (Completed), and its pods are gone",
        ),
    ],
)
async def test_without_a_pod_it_says_why(
    stage: Stage,
    api_server: ApiServer,
    monkeypatch: pytest.MonkeyPatch,
    conditions: list[dict[str, str]],
    told: str,
) -> None:
    await stage.job("j")
    meta = {"name": "j", "namespace": stage.namespace}
    body = {"apiVersion": API_VERSION, "kind": "OfflineJob", "metadata": meta, "status": {"conditions": conditions}}
    await apply_status(stage.client, body, manager="test")
    line = await asyncio.to_thread(failed, monkeypatch, api_server.kubeconfig, "logs", "j", "-n", stage.namespace)
    assert line == f"error: {told}"


@pytest.mark.parametrize(
    ("conditions", "why"),
    [
        (
            [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": 'pvc "data" not found'}],
            ': Unschedulable: pvc "data" not found',
        ),
        ([], ""),
    ],
)
@pytest.mark.parametrize("options", [[], ["-f"]])
async def test_of_a_pod_that_is_on_no_node_it_says_why(
    stage: Stage,
    api_server: ApiServer,
    monkeypatch: pytest.MonkeyPatch,
    conditions: list[dict[str, str]],
    why: str,
    options: list[str],
) -> None:
    """The API server answers that its log is empty."""
    await stage.job("j")
    await attempt(stage, "j", 1, "", "j-1")
    meta = {"name": "j-1", "namespace": stage.namespace}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": {"conditions": conditions}}
    await apply_status(stage.client, pod, manager="test")
    line = await asyncio.to_thread(
        failed, monkeypatch, api_server.kubeconfig, "logs", "j", "-n", stage.namespace, *options
    )
    assert line == f"error: j: pod j-1 is on no node yet, so it has written nothing{why}"


async def test_a_kubelet_that_is_away_is_told(
    stage: Stage, api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.job("j")
    await attempt(stage, "j", 1, "no-such-node", "j-1")
    line = await asyncio.to_thread(failed, monkeypatch, api_server.kubeconfig, "logs", "j", "-n", stage.namespace)
    assert line.startswith("error: the API server answers: ")
    line = await asyncio.to_thread(failed, monkeypatch, api_server.kubeconfig, "logs", "none", "-n", stage.namespace)
    assert line.startswith(f"error: there is no OfflineJob none in namespace {stage.namespace}; ")
    assert OFFLINE_JOBS.plural in line

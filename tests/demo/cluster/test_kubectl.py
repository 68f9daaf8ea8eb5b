"""Reaching a cluster, with stand-ins for its API server."""

import asyncio
import contextlib

import pytest
import yaml

from rowen.demo.cluster import kubectl
from rowen.demo.cluster.kubectl import Cluster
from rowen.demo.errors import DemoError
from rowen.kube.errors import UnreachableError

VERSION = b'{"major": "1", "minor": "34", "gitVersion": "v1.34.4"}'


@contextlib.asynccontextmanager
async def server(folder, monkeypatch, *answers):
    """Gives these answers, bodies or pairs of status and body, and then none any more; yields the paths asked for."""
    left, asked = list(answers), []

    async def serve(reader, writer):
        while (head := await reader.readuntil(b"\r\n\r\n")) and left:
            asked.append(head.split()[1].decode())
            status, body = left[0] if isinstance(left[0], tuple) else (200, left[0])
            del left[0]
            writer.write(b"HTTP/1.1 %d Said\r\nContent-Type: application/json\r\n" % status)
            writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        await asyncio.sleep(600)

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    config = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "c", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }
    (folder / "kubeconfig").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(folder / "kubeconfig"))
    yield asked
    listening.close()


async def test_a_server_that_never_answers_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(kubectl, "CONNECT_SECONDS", 0.3)
    async with server(tmp_path, monkeypatch), asyncio.timeout(30):
        with pytest.raises(DemoError, match="no Kubernetes answers: no reply in time"):
            async with Cluster.connect("default"):
                pass


async def test_a_server_that_stops_answering_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(kubectl, "READ_SECONDS", 0.3)
    async with server(tmp_path, monkeypatch, VERSION), asyncio.timeout(30), Cluster.connect("default") as connected:
        with pytest.raises(UnreachableError, match="no reply in time"):
            await connected.pods()


async def test_what_a_pod_serves_is_read_as_it_is(tmp_path, monkeypatch):
    answers = (VERSION, b"rowen_reclaims_total 1\n", b'{"devices": []}', b'{"items": [{"metadata": {"name": "a"}}]}')
    async with (
        server(tmp_path, monkeypatch, *answers) as asked,
        asyncio.timeout(30),
        Cluster.connect("default") as connected,
    ):
        assert connected.host == "127.0.0.1"
        assert await connected.pod_text("there", "agent", 8080, "metrics") == "rowen_reclaims_total 1\n"
        assert await connected.pod_get("there", "agent", 8080, "v1/devices?since=1.000") == {"devices": []}
        assert await connected.pods("app=x") == [{"metadata": {"name": "a"}}]
    assert asked[1:] == [
        "/api/v1/namespaces/there/pods/agent:8080/proxy/metrics",
        "/api/v1/namespaces/there/pods/agent:8080/proxy/v1/devices?since=1.000",
        "/api/v1/namespaces/default/pods?labelSelector=app%3Dx",
    ]


async def test_what_is_not_there_is_none(tmp_path, monkeypatch):
    answers = (VERSION, missing := (404, b'{"reason": "NotFound", "message": "none"}'), missing)
    async with server(tmp_path, monkeypatch, *answers), asyncio.timeout(30), Cluster.connect("default") as connected:
        assert await connected.rowen("offlinejobs", "gone") is None
        assert await connected.items("/apis/unknown/v1/things") == []

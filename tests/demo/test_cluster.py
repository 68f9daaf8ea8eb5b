"""Reaching a cluster, with stand-ins for its API server."""

import asyncio
import contextlib

import kr8s
import pytest
import yaml

from rowen.demo import cluster
from rowen.demo.cluster import Cluster
from rowen.demo.errors import DemoError

VERSION = b'{"major": "1", "minor": "34", "gitVersion": "v1.34.4"}'


@contextlib.asynccontextmanager
async def server(folder, monkeypatch, *answers):
    """Gives these answers, and then none any more."""
    left = list(answers)

    async def serve(reader, writer):
        while await reader.readuntil(b"\r\n\r\n") and left:
            body = left.pop(0)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
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
    yield
    listening.close()


async def test_a_server_that_never_answers_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.3)
    async with server(tmp_path, monkeypatch), asyncio.timeout(30):
        with pytest.raises(DemoError, match="no Kubernetes answers: no reply in time"):
            await Cluster.connect("default")


async def test_a_server_that_stops_answering_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "READ_SECONDS", 0.3)
    async with server(tmp_path, monkeypatch, VERSION), asyncio.timeout(30):
        connected = await Cluster.connect("default")
        with pytest.raises(kr8s.APITimeoutError):
            await connected.pods()

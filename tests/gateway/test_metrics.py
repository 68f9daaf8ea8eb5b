"""What Prometheus reads of the gateway."""

from typing import Any

import httpx
import openai
import pytest
from gateway.conftest import Team
from gateway.rig import Gateway, row
from gateway.test_batches import start

FILES, FILE = "/namespaces/{namespace}/v1/files", "/namespaces/{namespace}/v1/files/{file_id}"


def requests(gateway: Gateway, method: str, route: str, status: int) -> float:
    labels = frozenset({"method": method, "route": route, "status": str(status)}.items())
    return gateway.metrics().get(("rowen_gateway_requests_total", labels), 0.0)


async def test_requests_are_counted_by_route_and_status(team: Team, gateway: Gateway) -> None:
    asked = [("POST", FILES, 200), ("GET", FILE, 404), ("none", "none", 404), ("none", FILE, 405)]
    before = [requests(gateway, *each) for each in asked]
    team.client.files.create(file=("a.jsonl", b"x"), purpose="batch")
    for id_ in ("file-1", "file-2"):
        with pytest.raises(openai.NotFoundError):
            team.client.files.retrieve(id_)
    async with httpx.AsyncClient(verify=gateway.trusted, trust_env=False) as anybody:
        for path in ("thought-up", "metrics"):
            assert (await anybody.get(gateway.url(None).replace("/v1", f"/{path}"))).status_code == 404
        assert (await anybody.put(f"{gateway.url(team.namespace)}/files/file-1")).status_code == 405
    after = [requests(gateway, *each) for each in asked]
    assert [more - less for more, less in zip(after, before, strict=True)] == [1, 2, 2, 1]


async def test_uploads_and_batches_are_counted_by_namespace(team: Team, gateway: Gateway, upload: Any) -> None:
    file = team.client.files.retrieve(upload(row("1"), row("2")))
    start(team, file.id)
    start(team, file.id)
    with pytest.raises(openai.BadRequestError):
        start(team, file.id, endpoint="/v1/completions")
    told, where = gateway.metrics(), frozenset({("namespace", team.namespace)})
    assert told["rowen_gateway_uploaded_bytes_total", where] == file.bytes
    assert told["rowen_gateway_batches_total", where] == 2

"""Callers that are slow, and callers that want every place."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from apiserver import ApiServer
from fastapi import Request
from gateway.conftest import Team
from gateway.rig import Gateway
from gateway.rig import gateway as running
from s3 import S3Server
from starlette.types import Message

from rowen.gateway.callers.bounds import Pace, Places, bounded
from rowen.gateway.callers.errors import ApiError

PART = (
    b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n'
)


@pytest.fixture(scope="module")
def strict(
    api_server: ApiServer, s3_server: S3Server, gateway_bucket: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """A gateway with one place, and little patience."""
    bounds = {"silence_seconds": "1", "least_bytes_per_second": "1000", "most_uploads": "1"}
    folder: Path = tmp_path_factory.mktemp("strict")
    with running(api_server, s3_server, gateway_bucket, folder, most_namespace_uploads="1", **bounds) as found:
        yield found


@asynccontextmanager
async def begun(
    gateway: Gateway, team: Team, route: str = "files"
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A request whose body is not whole."""
    trusted: ssl.SSLContext = gateway.trusted
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, ssl=trusted)
    head = (
        f"POST /namespaces/{team.namespace}/v1/{route} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {team.token}\r\nContent-Type: multipart/form-data; boundary=b\r\n"
        "Content-Length: 60000\r\n\r\n"
    )
    writer.write(head.encode() + PART)
    try:
        yield reader, writer
    finally:
        writer.close()


async def refused(reader: asyncio.StreamReader) -> tuple[int, str]:
    """Status and code of the answer, after which nothing more comes."""
    async with asyncio.timeout(60):
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]["code"]


def upload(gateway: Gateway, team: Team) -> str:
    with gateway.client(team.token, team.namespace) as client:
        return client.files.create(file=("a.jsonl", b"x"), purpose="batch").id


async def test_an_upload_that_stops_is_ended_and_its_place_is_free(strict: Gateway, team: Team) -> None:
    async with begun(strict, team) as (reader, _):
        assert await refused(reader) == (408, "too_slow")
    assert await asyncio.to_thread(upload, strict, team)


@pytest.mark.parametrize("route", ["files", "batches"])
async def test_a_body_that_comes_too_slowly_is_ended(strict: Gateway, team: Team, route: str) -> None:
    """Never silent for long, and never done."""
    async with begun(strict, team, route) as (reader, writer):

        async def drip() -> None:
            while True:
                writer.write(b"x")
                await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        assert await refused(reader) == (408, "too_slow")
        dripping.cancel()
    assert await asyncio.to_thread(upload, strict, team)


async def test_a_body_that_is_slow_and_fast_enough_is_taken(strict: Gateway, team: Team) -> None:
    rest = b"x" * (60_000 - len(PART) - len(b"\r\n--b--\r\n")) + b"\r\n--b--\r\n"
    async with begun(strict, team) as (reader, writer):
        for at in range(0, len(rest), 5000):
            writer.write(rest[at : at + 5000])
            await asyncio.sleep(0.2)
        async with asyncio.timeout(60):
            assert (await reader.readline()).split()[1] == b"200"


@pytest.mark.parametrize("whole", [True, False])
async def test_a_body_that_is_whole_is_taken_however_slowly_it_came(whole: bool) -> None:
    pieces = iter([True, not whole])

    async def receive() -> Message:
        await asyncio.sleep(0.3)
        return {"type": "http.request", "body": b"x", "more_body": next(pieces)}

    slow = bounded(Request({"type": "http"}, receive), 10, Pace(0.5, 1000))
    if whole:
        assert await slow.body() == b"xx"
    else:
        with pytest.raises(ApiError, match="less than 1000 bytes a second"):
            await slow.body()


async def test_a_namespace_leaves_places_to_others() -> None:
    places = Places(2, 1, 60.0)
    async with places.take("a"):
        waiting = asyncio.create_task(places.take("a").__aenter__())
        await asyncio.sleep(0)
        async with asyncio.timeout(30), places.take("b"):
            assert not waiting.done()
    async with asyncio.timeout(30):
        await waiting


async def test_who_waits_too_long_for_a_place_is_told_so_and_takes_none() -> None:
    places = Places(2, 1, 0.01)
    async with places.take("a"):
        with pytest.raises(ApiError) as caught:
            await places.take("a").__aenter__()
        assert caught.value.status == 503
        async with places.take("b"):
            pass
    async with places.take("a"):
        pass

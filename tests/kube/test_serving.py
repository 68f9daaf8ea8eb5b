"""A process works and serves until one of both ends, or it is told to stop."""

import asyncio
import os
import signal

import httpx
import pytest
from apiserver import free_port
from fastapi import FastAPI

from rowen.kube.serving import http_server, run


def app() -> FastAPI:
    made = FastAPI()

    @made.get("/there")
    async def there() -> str:
        return "yes"

    return made


async def answer(port: int) -> int:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        async with asyncio.timeout(60):
            while True:
                try:
                    return (await client.get("/there")).status_code
                except httpx.TransportError:
                    await asyncio.sleep(0.05)


async def test_it_serves_while_it_works_and_ends_on_sigterm() -> None:
    ended, ports = asyncio.Event(), (free_port(), free_port())

    async def for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    running = asyncio.create_task(run([for_ever()], [http_server(app(), port) for port in ports]))
    assert [await answer(port) for port in ports] == [200, 200]
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(running, 60)
    assert ended.is_set()
    for port in ports:
        async with httpx.AsyncClient(trust_env=False) as client:
            with pytest.raises(httpx.ConnectError):
                await client.get(f"http://127.0.0.1:{port}/there")


async def test_what_work_raises_is_raised_and_the_rest_ends() -> None:
    port, other = free_port(), asyncio.Event()

    async def fails() -> None:
        assert await answer(port) == 200
        raise LookupError("gone")

    async def for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            other.set()

    with pytest.raises(LookupError, match="gone"):
        await asyncio.wait_for(run([fails(), for_ever()], [http_server(app(), port)]), 120)
    assert other.is_set()

"""A server that answers as API servers and what stands before them do on bad days."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from rowen.kube.client import Client, open_client

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def status(code: int, reason: str, message: str, headers: dict[str, str] | None = None) -> Answer:
    """The API server's own refusal."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response({**body, "message": message}, status=code, headers=headers)

    return answer


def body(text: str, code: int = 200, content_type: str = "application/json") -> Answer:
    """Whatever text."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=text, status=code, content_type=content_type)

    return answer


def listed(version: int, *items: dict[str, Any], token: str = "") -> Answer:
    """A page of a list."""
    return body(json.dumps({"metadata": {"resourceVersion": str(version), "continue": token}, "items": items}))


def streamed(*chunks: bytes, then: str = "end") -> Answer:
    """An answer in chunks, that then ends, hangs, or is cut in the middle."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if then == "hang":
            await asyncio.sleep(60)
        if then == "cut" and request.transport is not None:
            request.transport.abort()
        return response

    return answer


def watched(*events: dict[str, Any], then: str = "end") -> Answer:
    """A watch with these events."""
    return streamed(*(json.dumps(event).encode() + b"\n" for event in events), then=then)


def hung() -> Answer:
    """No answer at all."""

    async def answer(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        raise AssertionError("it was waited for")

    return answer


def thing(version: int, uid: str = "u", *, name: str | None = None) -> dict[str, Any]:
    """An object as small as one can be."""
    meta = {"uid": uid, "name": name or uid, "namespace": "n", "resourceVersion": str(version)}
    return {"metadata": meta}


def event(type_: str, version: int, uid: str = "u") -> dict[str, Any]:
    """An event of a watch."""
    return {"type": type_, "object": thing(version, uid)}


@dataclass
class Odd:
    """Answers of a path are used up one by one; the last one stays. A watch's are at `watch PATH`."""

    folder: Path
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Path and query of each request."""
    url: str = ""

    def say(self, path: str, *answers: Answer) -> None:
        """What is answered at this path from now on."""
        self.answers[path] = list(answers)

    def queries(self, path: str) -> list[dict[str, str]]:
        """The queries that came for a path."""
        return [query for asked, query in self.asked if asked == path]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answers one request."""
        path = f"watch {request.path}" if "watch" in request.query else request.path
        self.asked.append((path, dict(request.query)))
        answers = self.answers[path]
        return await (answers.pop(0) if len(answers) > 1 else answers[0])(request)

    async def client(self) -> Client:
        """A client of it."""
        config = {
            "current-context": "odd",
            "clusters": [{"name": "odd", "cluster": {"server": self.url}}],
            "contexts": [{"name": "odd", "context": {"cluster": "odd", "user": "odd", "namespace": "here"}}],
            "users": [{"name": "odd", "user": {"token": "secret"}}],
        }
        path = self.folder / "odd.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return await open_client(str(path))


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Odd]:
    """Serves on a port of loopback."""
    odd = Odd(folder)
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", odd.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    odd.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield odd
    finally:
        await runner.cleanup()

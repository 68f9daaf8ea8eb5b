"""`LifecycleMiddleware`: an inference request is in flight from arrival to the response's end.

The gate closes before vLLM has parsed the request and cannot open again before the response has ended or the client
has gone, so a request meets at most one preemption.

It also says which engine answers: the name of its pod is in a header of `/health`.
"""

import os
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from rowen.crds.names import ENGINE_POD_ENV, ENGINE_POD_HEADER
from rowen.runtime.log import get_logger
from rowen.runtime.native import Online, online
from rowen.runtime.vllm.rows.marker import is_sent_as_row
from rowen.runtime.vllm.token_times import TokenTimes

log = get_logger()

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# A route that is missing here is still seen by the engine's scheduler, only some milliseconds later.
INFERENCE_ROUTES = frozenset({
    "/v1/completions", "/v1/chat/completions", "/v1/chat/completions/batch", "/v1/responses", "/v1/messages",
    "/v1/embeddings", "/v1/audio/transcriptions", "/v1/audio/translations", "/v1/rerank", "/v2/rerank", "/rerank",
    "/v2/embed", "/v1/score", "/score", "/pooling", "/classify", "/inference/v1/generate",
    "/generative_scoring", "/invocations",
})  # fmt: skip


class LifecycleMiddleware:
    """Pure ASGI: passes every message on unchanged, but for the header of `/health`."""

    def __init__(self, app: App, rows_ride: bool = False) -> None:
        """`rows_ride`: the engine has batch rows below its online requests, and none of them is in flight."""
        self._app = app
        self._device = online()
        self._rows_ride = rows_ride
        self._pod = os.environ.get(ENGINE_POD_ENV, "")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one ASGI connection."""
        if self._device is None or not _is_inference(scope) or (self._rows_ride and _is_row(scope)):
            await self._app(scope, receive, self._named(send) if self._pod and _is_health(scope) else send)
            return
        flight = Flight(self._device)

        async def observed_send(message: Message) -> None:
            # Counted before it is handed over: a slow client must not look like a slow engine.
            flight.sending(message)
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                flight.end()

        try:
            await self._app(scope, receive, observed_send)
        finally:
            flight.end()

    def _named(self, send: Send) -> Send:
        """Batches ask who answers: another engine may have this one's address one day."""
        header = ENGINE_POD_HEADER.lower().encode(), self._pod.encode()

        async def naming_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), header]}
            await send(message)

        return naming_send


class Flight:
    """One request from arrival to end, as the device is told."""

    def __init__(self, device: Online) -> None:
        self._device = device
        # Before the gate closes, so that the agent finds this request's own stop within it.
        self._begin_ns = time.monotonic_ns()
        device.busy()
        self._times = TokenTimes(self._begin_ns)
        self._streamed = False
        self._ended = False
        self._tenant_present = device.tenants() > 0

    def sending(self, message: Message) -> None:
        """A message of the response goes out, whatever it says."""
        try:
            self._look(message)
        except Exception as error:
            # Of a response that is not as vLLM's are, no latency is recorded.
            log.warning("the times of a response's tokens are not known", error=f"{type(error).__name__}: {error}")
            self._streamed, self._times = False, TokenTimes(self._begin_ns)

    def _look(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._streamed = any(
                name.lower() == b"content-type" and value.startswith(b"text/event-stream")
                for name, value in message.get("headers", ())
            )
        elif self._streamed and message["type"] == "http.response.body":
            self._times.feed(message.get("body", b""), time.monotonic_ns())

    def end(self) -> None:
        """The response has ended or the client has gone. Further calls do nothing."""
        if self._ended:
            return
        self._ended = True
        present = self._tenant_present or self._device.tenants() > 0
        times = self._times
        # A response in one piece has no time to its first token, and 0 would be taken for a fast one.
        if times.tokens:
            # While this request still holds the gate closed, or the next stop could be counted as its own.
            self._device.record(self._begin_ns, times.ttft_ns, times.tpot_ns, times.tokens, present)
        self._device.idle()


def _is_row(scope: Scope) -> bool:
    return is_sent_as_row(scope.get("headers", ()))


def _is_health(scope: Scope) -> bool:
    return bool(scope["type"] == "http" and scope["path"] == "/health")


def _is_inference(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "POST":
        return False
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "")) in INFERENCE_ROUTES

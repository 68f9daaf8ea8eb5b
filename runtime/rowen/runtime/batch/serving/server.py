"""vLLM's API application in this process, without a port. What computes is a process of vLLM's own."""

import asyncio
import json
from argparse import Namespace
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

import httpx
import structlog
from typing_extensions import override

from rowen.crds.job.worker import ExitCode
from rowen.runtime.batch.serving.confession import told_failures
from rowen.runtime.batch.serving.length import Length
from rowen.runtime.batch.serving.refusal import refusals
from rowen.runtime.batch.serving.routes import ROUTES
from rowen.runtime.failure import WorkerError

if TYPE_CHECKING:
    from fastapi import FastAPI
    from vllm.config import VllmConfig
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.metrics.loggers import StatLoggerFactory
    from vllm.v1.metrics.stats import IterationStats

log = structlog.get_logger()

_PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0)
"""Between the tries of a row at which vLLM fails."""
_OK = 200
_UNIMPLEMENTED = 501
_SERVER_ERROR = 500


@dataclass(frozen=True)
class Answer:
    """What a route answers: a status of HTTP and JSON."""

    status: int
    body: Any


class Server(Protocol):
    """Answers requests, many at a time."""

    routes: tuple[str, ...]
    """Where requests may go."""
    sequences: int
    """How many it works on at once."""
    length: Length
    """Of a sequence."""

    async def ask(self, route: str, body: dict[str, Any], request_id: str) -> Answer:
        """The answer to a request. Raises `WorkerError` for what another attempt may get answered."""


class VllmServer(Server):
    """`Server` on vLLM's application."""

    def __init__(self, app: "FastAPI", engine: "AsyncLLM", model_length: int) -> None:
        served = {getattr(route, "path", None) for route in app.routes if "POST" in getattr(route, "methods", ())}
        self.routes = tuple(route for route in ROUTES if route in served)
        self.sequences = int(engine.vllm_config.scheduler_config.max_num_seqs)
        self.length = Length(model=model_length, fitting=int(engine.model_config.max_model_len))
        self._engine = engine
        self._answered = 0
        # No time limit: behind a closed gate a request takes as long as that is closed.
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://vllm", timeout=None)  # noqa: S113

    @override
    async def ask(self, route: str, body: dict[str, Any], request_id: str) -> Answer:
        content = json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "X-Request-Id": request_id}
        before = self._answered
        for pause in (*_PAUSES_SECONDS, None):
            response = await self._client.post(route, content=content, headers=headers)
            if response.status_code < _SERVER_ERROR or response.status_code == _UNIMPLEMENTED:
                self._answered += response.status_code == _OK
                if response.is_success and not is_json(response):
                    return unreadable(response)
                return Answer(response.status_code, body_of(response))
            self._check_engine()
            error = response.text[:500]
            log.warning("vLLM failed at a row", request=request_id, status=response.status_code, error=error)
            if pause is not None:
                await asyncio.sleep(pause)
        if self._answered > before or await self._is_working(route, body["model"]):
            # Another request was answered meanwhile or is now, so it is this one: it must not end the job for all.
            return Answer(response.status_code, body_of(response))
        message = f"{request_id}: vLLM answers {response.status_code}: {response.text[:500]}"
        raise WorkerError("Failed", message, ExitCode.RETRY)

    async def _is_working(self, route: str, model: str) -> bool:
        """Whether a small request to the route is answered. Raises `WorkerError` for an engine that has ended."""
        response = await self._client.post(route, json={**ROUTES[route], "model": model})
        self._check_engine()
        return response.status_code == _OK

    def _check_engine(self) -> None:
        if self._engine.errored:
            raise WorkerError("Failed", "vLLM's engine has ended; see the log", ExitCode.RETRY)


def is_json(response: httpx.Response) -> bool:
    """Whether it says so; of embeddings rows may want bytes."""
    return str(response.headers.get("content-type", "application/json")).startswith("application/json")


def unreadable(response: httpx.Response) -> Answer:
    """In place of an answer that no result has room for."""
    message = f"the answer is {response.headers['content-type']}, and a result holds JSON"
    error = {"message": message, "type": "NotImplementedError", "param": None, "code": _UNIMPLEMENTED}
    return Answer(_UNIMPLEMENTED, {"error": error})


def body_of(response: httpx.Response) -> Any:
    """What vLLM says; where that is no JSON, as it tells of its own failures."""
    try:
        return response.json()
    except ValueError:
        return {"error": {"message": response.text, "type": "InternalServerError", "code": response.status_code}}


@asynccontextmanager
async def serving(arguments: Namespace, cache: str, on_tokens: Callable[[int], None]) -> AsyncIterator[Server]:
    """A server with these arguments. `cache`: how large it is, in words. `on_tokens`: told how many were computed.

    Raises `WorkerError` when vLLM does not start.
    """
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.entrypoints.launchers.api_server.app_state import init_app_state
    from vllm.entrypoints.launchers.app import build_app
    from vllm.v1.engine.async_llm import AsyncLLM

    with refusals("the model or its arguments"):
        config = AsyncEngineArgs.from_cli_args(arguments).create_engine_config()
    model_length = int(config.model_config.max_model_len)
    with told_failures(cache), refusals("the model or its arguments"):
        engine = AsyncLLM.from_vllm_config(config, stat_loggers=[_token_counter(on_tokens)], disable_log_stats=True)
    try:
        tasks = await engine.get_supported_tasks()
        app = build_app(arguments, tasks, engine.model_config)
        # What vLLM tells its HTTP server when the engine has ended.
        app.state.server = SimpleNamespace(should_exit=False)
        with refusals("the adapter or chat template"):
            await init_app_state(engine, app.state, arguments, tasks)
        server = VllmServer(app, engine, model_length)
        if server.length.fitting < model_length:
            log.warning(
                "the memory allows shorter sequences than the model", tokens=server.length.fitting, model=model_length
            )
        yield server
    finally:
        engine.shutdown(timeout=0)


def _token_counter(on_tokens: Callable[[int], None]) -> "StatLoggerFactory":
    from vllm.v1.metrics.loggers import StatLoggerBase

    class TokenCounter(StatLoggerBase):  # type: ignore[misc]
        """Told of each step of the engine."""

        def __init__(self, vllm_config: "VllmConfig", engine_index: int = 0) -> None:
            pass

        @override
        def record(
            self, scheduler_stats: object, iteration_stats: "IterationStats | None", *args: object, **kwargs: object
        ) -> None:
            if iteration_stats is not None:
                on_tokens(iteration_stats.num_generation_tokens + iteration_stats.num_prompt_tokens)

        @override
        def log_engine_initialized(self) -> None:
            pass

    return TokenCounter

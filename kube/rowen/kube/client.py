"""Requests to the API server, through the official client's connections and login."""

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import aiohttp
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration

from rowen.kube.errors import LoginError, UnreachableError, refused

TIMEOUT_SECONDS = 10.0
JSON, APPLY = "application/json", "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
_CONNECT_SECONDS = 5.0
"""For a free connection, or a new one."""
_FAILURES = (aiohttp.ClientError, TimeoutError, OSError, ValueError, RecursionError)
"""What the connections raise; a ValueError is an address that is none, or an answer that is no HTTP.

JSON that is nested too deeply is a RecursionError; a login whose file cannot be read, an OSError.
"""
_LOGIN = ["BearerToken"]
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_USERS_FILE = "~/.kube/config"

T = TypeVar("T")

Raw = dict[str, Any]
"""An object as JSON has it."""


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    query: Mapping[str, str] | None
    body: Mapping[str, Any] | None
    content_type: str
    limits: aiohttp.ClientTimeout
    headers: Mapping[str, str] | None = None


class Client:
    """One request, one answer: nothing is tried again here, and no call knows of another one."""

    def __init__(self, api: ApiClient, namespace: str = "default", login: Mapping[str, str] | None = None) -> None:
        self._api = api
        self._login = login or {}
        self.namespace = namespace
        """Where the login says that one is: the pod's, or the context's."""
        self.server: str = api.configuration.host
        """URL of the API server."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def token(self) -> str | None:
        """The bearer token that requests carry; None where a certificate says who one is. Raises `LoginError`."""
        try:
            value = await self._api.configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        except config.ConfigException as error:
            raise LoginError(str(error)) from error
        return value.removeprefix("Bearer ") if value else None

    def bearing(self, token: str) -> "Client":
        """The same connections, whose requests carry this token: for a client of `open_stranger`."""
        return Client(self._api, self.namespace, {"Authorization": f"Bearer {token}"})

    async def close(self) -> None:
        """Ends the connections."""
        await self._api.close()

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = JSON,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> Raw:
        """The answer's object. Raises `KubeError`; all in all it takes no longer than `timeout_seconds`."""
        limits = aiohttp.ClientTimeout(total=timeout_seconds, connect=_CONNECT_SECONDS)
        found = await self._content(
            _Request(method, path, query, body, content_type, limits, headers), timeout_seconds, json.loads
        )
        if not isinstance(found, dict):
            raise UnreachableError("the answer is no object")
        return found

    async def text(self, path: str, *, timeout_seconds: float = TIMEOUT_SECONDS) -> str:
        """What lies at a path that is no object, as what a pod serves through the API server's proxy; as `call`."""
        limits = aiohttp.ClientTimeout(total=timeout_seconds, connect=_CONNECT_SECONDS)
        return await self._content(_Request("GET", path, None, None, JSON, limits), timeout_seconds, bytes.decode)

    @asynccontextmanager
    async def lines(
        self, path: str, query: Mapping[str, str], silence_seconds: float, *, open_end: bool = False
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of an answer that goes on; silence for so long ends it.

        What has no line end is no line: the connection may have cut it. With `open_end` it is one, where the answer
        was whole. Raises `KubeError`.
        """
        limits = aiohttp.ClientTimeout(total=None, connect=_CONNECT_SECONDS, sock_read=silence_seconds)
        async with self._answer(_Request("GET", path, query, None, JSON, limits)) as answer:
            yield _lines(answer, open_end=open_end)

    async def _content(self, request: _Request, timeout_seconds: float, read: Callable[[bytes], T]) -> T:
        try:
            async with asyncio.timeout(timeout_seconds):
                async with self._answer(request) as answer:
                    return read(await answer.read())
        except _FAILURES as error:
            raise _unreachable(error) from error

    @asynccontextmanager
    async def _answer(self, request: _Request) -> AsyncIterator[aiohttp.ClientResponse]:
        response = await self._send(request)
        try:
            if response.status >= 400:
                text = await _whole(response)
                raise refused(response.status, response.reason or "", text, response.headers.get("Retry-After"))
            yield response
        finally:
            # An answer that was read to its end has given its connection back already.
            response.close()

    async def _send(self, request: _Request) -> aiohttp.ClientResponse:
        headers = {"Accept": JSON, "Content-Type": request.content_type, **self._login, **(request.headers or {})}
        query = list((request.query or {}).items())
        try:
            prepared = await self._api.param_serialize(
                request.method, request.path, query_params=query, header_params=headers, auth_settings=_LOGIN
            )
            answer = await self._api.rest_client.request(
                *prepared[:3], body=request.body, _request_timeout=request.limits
            )
        except config.ConfigException as error:
            raise LoginError(str(error)) from error
        except _FAILURES as error:
            raise _unreachable(error) from error
        found: aiohttp.ClientResponse = answer.response
        return found


async def _whole(answer: aiohttp.ClientResponse) -> bytes:
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await answer.read()
    except _FAILURES as error:
        raise _unreachable(error) from error


async def _lines(answer: aiohttp.ClientResponse, *, open_end: bool) -> AsyncIterator[bytes]:
    """Chunks joined to lines: aiohttp's own iteration refuses lines above its buffer."""
    rest: list[bytes] = []
    try:
        async for chunk in answer.content.iter_any():
            *whole, end = chunk.split(b"\n")
            for line in whole:
                yield b"".join((*rest, line))
                rest.clear()
            rest.append(end)
    except _FAILURES as error:
        raise _unreachable(error) from error
    if open_end and any(rest):
        yield b"".join(rest)


def _unreachable(error: Exception) -> UnreachableError:
    if isinstance(error, TimeoutError):
        return UnreachableError(str(error) or "no reply in time")
    return UnreachableError(str(error) or type(error).__name__)


async def open_client(kubeconfig: str | None = None, context: str | None = None) -> Client:
    """As a kubeconfig says, the given one or `KUBECONFIG`'s; else as the pod's service account, or the user's own file.

    `context` is one of the kubeconfig's; its current one by default. Raises `LoginError`; the API server is not asked.
    """
    return Client(*await _configured(kubeconfig, context))


async def open_stranger() -> Client:
    """To the API server of `open_client`, as nobody: for a process that acts with the tokens of its callers alone."""
    found, namespace = await _configured(None, None)
    configuration = Configuration(host=found.configuration.host, ssl_ca_cert=found.configuration.ssl_ca_cert)
    configuration.verify_ssl = found.configuration.verify_ssl
    configuration.tls_server_name = found.configuration.tls_server_name
    configuration.retries = None
    await found.close()
    return Client(ApiClient(configuration), namespace)


async def _configured(kubeconfig: str | None, context: str | None) -> tuple[ApiClient, str]:
    """With the namespace that the login names. Raises `LoginError`."""
    configuration = Configuration()
    configuration.retries = None
    # The client takes a kubeconfig as it is: each fault of one shows as an exception of another kind.
    try:
        files = kubeconfig or os.environ.get("KUBECONFIG")
        if not files and context is None and _in_a_pod():
            config.load_incluster_config(configuration)
            namespace = (_ACCOUNT / "namespace").read_text().strip()
        else:
            with _faults_raised():
                loader = await config.load_kube_config(
                    files or _USERS_FILE, context, client_configuration=configuration, persist_config=False
                )
            namespace = loader.current_context["context"].get("namespace")
        return ApiClient(configuration), namespace or "default"
    except (TypeError, AttributeError, KeyError) as error:
        # An empty file, say: the client's own words are of its insides.
        expected = "an object with clusters, users, contexts and current-context was expected"
        raise LoginError(expected) from error
    except Exception as error:
        raise LoginError(str(error) or type(error).__name__) from error


@contextmanager
def _faults_raised() -> Iterator[None]:
    """The library logs that an exec plugin failed, and goes on as nobody. Raises `LoginError`."""
    faults: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        if record.levelno >= logging.ERROR:
            faults.append(record.getMessage())
        return record.levelno < logging.WARNING

    logger = logging.getLogger(config.kube_config.__name__)
    logger.addFilter(keep)
    try:
        yield
    finally:
        logger.removeFilter(keep)
    if faults:
        raise LoginError(f"its exec plugin failed: {'; '.join(faults)}")


def _in_a_pod() -> bool:
    return "KUBERNETES_SERVICE_HOST" in os.environ and (_ACCOUNT / "token").exists()

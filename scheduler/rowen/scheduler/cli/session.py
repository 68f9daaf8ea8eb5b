"""A user's way to the cluster; what goes wrong is told in a line."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from rowen.crds.base import Name
from rowen.kube.client import Client, open_client
from rowen.kube.errors import KubeError, LoginError, RefusedError
from rowen.kube.objects import NOT_FOUND

LIMIT_SECONDS = 15.0
"""So long the API server may take in all."""

FORBIDDEN = 403
_UNAUTHORIZED = 401
_NAME: TypeAdapter[str] = TypeAdapter(Name)
_KIND = re.compile(r"^(ojob|offlinejobs?(\.rowen\.dev)?)/(?=[^/]+$)")
"""What `kubectl get -o name` and its users put before a name."""

T = TypeVar("T")


class CommandError(Exception):
    """Why a command cannot do what it was asked for, in one line."""


def job_name(given: str) -> str:
    """The name of a job that is given by `NAME` or `ojob/NAME`. Raises `CommandError`."""
    job = _KIND.sub("", given)
    return checked("name of a job", job)


def checked(what: str, given: str) -> str:
    """A name as the API takes it. Raises `CommandError`."""
    # It becomes a part of the URL.
    try:
        return _NAME.validate_python(given)
    except ValidationError:
        raise CommandError(f"{given!r} cannot be the {what}: lower-case letters, digits, - and .") from None


@dataclass(frozen=True)
class Login:
    """By which kubeconfig, and which of its contexts, a command goes; None: as kubectl does."""

    kubeconfig: str | None = None
    context: str | None = None


LOGIN = ContextVar("LOGIN", default=Login())  # noqa: B039
"""The command's own."""


async def connected() -> Client:
    """A way to the API server. Raises `LoginError`."""
    login = LOGIN.get()
    return await open_client(login.kubeconfig, login.context)


async def asked(work: Callable[[Client], Awaitable[T]], most_seconds: float | None = None) -> T:
    """What `work` finds out within so many seconds, `LIMIT_SECONDS` if nothing is said. Raises `CommandError`."""
    async with told(), asyncio.timeout(most_seconds or LIMIT_SECONDS), await connected() as client:
        return await work(client)


@asynccontextmanager
async def told() -> AsyncIterator[None]:
    """Makes a line of what goes wrong within. Raises `CommandError`."""
    try:
        yield
    except (KubeError, TimeoutError) as error:
        raise CommandError(line(error)) from error


def line(error: Exception) -> str:
    """What has gone wrong, in a line."""
    return " ".join(_reason(error).split())


def not_installed(error: RefusedError) -> bool:
    """Whether the API server does not know the kind: it answers such a path with a plain line."""
    return error.status == NOT_FOUND and not error.reason


def _reason(error: Exception) -> str:
    kubeconfig = LOGIN.get().kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    if isinstance(error, RefusedError):
        if error.status == _UNAUTHORIZED:
            return f"the API server does not accept the credentials in {kubeconfig}"
        if not_installed(error):
            return "this cluster does not know Rowen's objects: Rowen is not installed in it"
        return f"the API server answers: {error}"
    if not isinstance(error, LoginError):
        return f"the API server that {kubeconfig} names does not answer: {str(error) or 'no reply in time'}"
    if not any(Path(each).expanduser().exists() for each in kubeconfig.split(os.pathsep)):
        return f'there is no {kubeconfig}; set KUBECONFIG, for the local cluster with `eval "$(make -s env)"`'
    return f"{kubeconfig} cannot be used as a kubeconfig: {error}"

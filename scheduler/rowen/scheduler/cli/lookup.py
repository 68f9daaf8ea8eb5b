"""Reads one job's status with a user's kubeconfig; what goes wrong is told in a line."""

import asyncio
import os
import re
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from rowen.crds.base import Name
from rowen.crds.offline_job import OfflineJobStatus
from rowen.kube.client import open_client
from rowen.kube.errors import KubeError, LoginError, RefusedError
from rowen.kube.kinds import OFFLINE_JOBS
from rowen.kube.objects import NOT_FOUND, get

LIMIT_SECONDS = 15.0
"""So long the API server may take in all."""

_UNAUTHORIZED = 401
_NAME: TypeAdapter[str] = TypeAdapter(Name)
_KIND = re.compile(r"^(ojob|offlinejobs?(\.rowen\.dev)?)/(?=[^/]+$)")
"""What `kubectl get -o name` and its users put before a name."""


class StatusError(Exception):
    """Why a job's status could not be read, in one line."""


async def read_status(job: str, namespace: str | None) -> OfflineJobStatus:
    """Status of an OfflineJob, by `NAME` or `ojob/NAME`; `namespace` is the context's by default.

    Raises:
        StatusError: It could not be read.
    """
    job = _KIND.sub("", job)
    _check_name("name of a job", job)
    if namespace is not None:
        _check_name("namespace", namespace)
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            found = await _get(job, namespace)
    except (KubeError, TimeoutError) as error:
        raise StatusError(" ".join(_reason(error).split())) from error
    try:
        return OfflineJobStatus.from_wire(found.get("status") or {})
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise StatusError(f"{job}: this version of kubectl rowen does not understand status.{where}") from error


def _check_name(what: str, given: str) -> None:
    # It becomes a part of the URL.
    try:
        _NAME.validate_python(given)
    except ValidationError:
        raise StatusError(f"{given!r} cannot be the {what}: lower-case letters, digits, - and .") from None


async def _get(job: str, namespace: str | None) -> dict[str, Any]:
    async with await open_client() as client:
        where = namespace or client.namespace
        try:
            return await get(client, OFFLINE_JOBS, where, job)
        except RefusedError as error:
            if error.status != NOT_FOUND:
                raise
            # A path that the API server does not serve is answered with a plain line.
            if not error.reason:
                raise StatusError("this cluster does not know OfflineJobs: Rowen is not installed in it") from error
            hint = "`kubectl get offlinejobs -A` lists all"
            raise StatusError(f"there is no OfflineJob {job} in namespace {where}; {hint}") from error


def _reason(error: Exception) -> str:
    kubeconfig = os.environ.get("KUBECONFIG") or "~/.kube/config"
    if isinstance(error, RefusedError):
        if error.status == _UNAUTHORIZED:
            return f"the API server does not accept the credentials in {kubeconfig}"
        return f"the API server answers: {error}"
    if not isinstance(error, LoginError):
        return f"the API server that {kubeconfig} names does not answer: {str(error) or 'no reply in time'}"
    if not any(Path(each).expanduser().exists() for each in kubeconfig.split(os.pathsep)):
        return f'there is no {kubeconfig}; set KUBECONFIG, for the local cluster with `eval "$(make -s env)"`'
    return f"{kubeconfig} cannot be used as a kubeconfig: {error}"

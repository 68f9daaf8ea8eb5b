"""One job, as the API server has it."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from rowen.crds.job.offline_job_status import OfflineJobStatus
from rowen.crds.names import OPERATOR_MANAGER
from rowen.kube.client import Client, Raw
from rowen.kube.errors import RefusedError
from rowen.kube.kinds import OFFLINE_JOBS
from rowen.kube.objects import NOT_FOUND, get
from rowen.scheduler.cli.session import CommandError, not_installed


def status_of(job: str, raw: Raw) -> OfflineJobStatus:
    """The status of an object. Raises `CommandError`."""
    try:
        return OfflineJobStatus.from_wire(raw.get("status") or {})
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise CommandError(f"{job}: this version of kubectl rowen does not understand status.{where}") from error


async def find(client: Client, job: str, namespace: str | None) -> Raw:
    """The job. Raises `CommandError` where there is none, and `KubeError`."""
    where = namespace or client.namespace
    try:
        return await get(client, OFFLINE_JOBS, where, job)
    except RefusedError as error:
        if error.status != NOT_FOUND:
            raise
        if not_installed(error):
            raise CommandError("this cluster does not know OfflineJobs: Rowen is not installed in it") from error
        hint = "`kubectl get offlinejobs -A` lists all"
        raise CommandError(f"there is no OfflineJob {job} in namespace {where}; {hint}") from error


def left_alone(spec: Mapping[str, Any]) -> str | None:
    """Why Rowen does not look at a job with this spec; None where it does."""
    manager = spec.get("managedBy")
    return None if manager in (None, OPERATOR_MANAGER) else f"managed by {manager}: Rowen leaves it alone"

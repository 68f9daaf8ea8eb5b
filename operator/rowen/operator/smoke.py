"""`helm test`: submits a tiny OfflineJob and waits for an answer. Run as `python -m rowen.operator.smoke`.

Passes when the job finishes, and also when no device can be harvested and the scheduler has said why: then the
API, the scheduler and the operator work, and there is only nothing to run on. Environment: `POD_NAMESPACE`,
`ROWEN_SMOKE_IMAGE` (any image with a Python), `ROWEN_SMOKE_SECONDS` (default 120).
"""

import asyncio
import os
import sys
import time
from dataclasses import dataclass
from typing import Any

from rowen.crds.common import find_condition, is_true
from rowen.crds.job.offline_job_status import OfflineJobStatus
from rowen.crds.names import API_VERSION, GROUP
from rowen.kube.client import Client, open_client
from rowen.kube.errors import RefusedError
from rowen.kube.kinds import OFFLINE_JOBS
from rowen.kube.objects import apply, delete, get

NAME = "rowen-smoke"
_MANAGER = f"{GROUP}/smoke"
_POLL_SECONDS = 1.0
_DELETE_SECONDS = 60.0
_NOT_FOUND = 404


@dataclass(frozen=True)
class Verdict:
    """How the test ended."""

    passed: bool
    message: str


def job(namespace: str, image: str) -> dict[str, Any]:
    """An OfflineJob whose pod says one word and ends; it satisfies the restricted Pod Security profile."""
    container = {
        "name": "hello",
        "image": image,
        "command": ["python", "-c", "print('harvested')"],
        "resources": {"requests": {"cpu": "10m"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "OfflineJob",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {"template": {"spec": pod}, "memory": "64Mi", "backoffLimit": 0},
    }


def verdict(status: OfflineJobStatus, *, out_of_time: bool) -> Verdict | None:
    """What a status means for the test; None while it has to wait."""
    finished = find_condition(status.conditions, "Finished")
    if finished is not None and finished.status == "True":
        return Verdict(finished.reason == "Completed", f"the job ended: {finished.reason}: {finished.message}")
    if not out_of_time:
        return None
    if status.assignment is None and status.explanation is not None:
        return Verdict(
            passed=True, message=f"the scheduler answered, and nothing is free: {status.explanation.message}"
        )
    if is_true(status.conditions, "Placed"):
        return Verdict(False, f"the job was placed and did not finish: state {status.state}")
    return Verdict(False, "neither scheduler nor operator answered: look at their logs")


async def run(client: Client, namespace: str, image: str, seconds: float) -> Verdict:
    """Submits the job, waits for the verdict and deletes the job."""
    await _delete(client, namespace)
    await apply(client, OFFLINE_JOBS, job(namespace, image), manager=_MANAGER)
    try:
        deadline = time.monotonic() + seconds
        while True:
            stored = await get(client, OFFLINE_JOBS, namespace, NAME)
            status = OfflineJobStatus.from_wire(stored.get("status", {}))
            result = verdict(status, out_of_time=time.monotonic() > deadline)
            if result is not None:
                return result
            await asyncio.sleep(_POLL_SECONDS)
    finally:
        await _delete(client, namespace)


async def _delete(client: Client, namespace: str) -> None:
    """Deletes the job if it is there. Raises `TimeoutError` when it stays, e.g. since no operator frees it."""
    await delete(client, OFFLINE_JOBS, namespace, NAME)
    async with asyncio.timeout(_DELETE_SECONDS):
        while await _is_there(client, namespace):  # noqa: ASYNC110 - it is the API server that is asked
            await asyncio.sleep(_POLL_SECONDS)


async def _is_there(client: Client, namespace: str) -> bool:
    try:
        await get(client, OFFLINE_JOBS, namespace, NAME)
    except RefusedError as error:
        if error.status != _NOT_FOUND:
            raise
        return False
    return True


async def main() -> int:
    """Runs the test from the environment; returns the exit status."""
    client = await open_client()
    try:
        result = await run(
            client,
            os.environ["POD_NAMESPACE"],
            os.environ["ROWEN_SMOKE_IMAGE"],
            float(os.environ.get("ROWEN_SMOKE_SECONDS", "120")),
        )
    finally:
        await client.close()
    sys.stdout.write(f"{'passed' if result.passed else 'FAILED'}: {result.message}\n")
    return 0 if result.passed else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

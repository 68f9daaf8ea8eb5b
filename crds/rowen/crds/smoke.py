"""`helm test`: submits a tiny OfflineJob and waits for an answer. Run as `python -m rowen.crds.smoke`.

Passes when the job finishes, and also when no device can be harvested and the scheduler has said why: then the
API, the scheduler and the operator work, and there is only nothing to run on. Environment: `POD_NAMESPACE`,
`ROWEN_SMOKE_IMAGE` (any image with a Python), `ROWEN_SMOKE_SECONDS` (default 120).
"""

import asyncio
import os
import sys
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import kr8s.asyncio

from rowen.crds.apply import apply
from rowen.crds.common import find_condition, is_true
from rowen.crds.names import API_VERSION, GROUP
from rowen.crds.offline_job import OfflineJobStatus

NAME = "rowen-smoke"
_MANAGER = f"{GROUP}/smoke"
_POLL_SECONDS = 1.0
_DELETE_SECONDS = 60.0


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


async def run(api: kr8s.asyncio.Api, namespace: str, image: str, seconds: float) -> Verdict:
    """Submits the job, waits for the verdict and deletes the job."""
    await _delete(api, namespace)
    await apply(api, job(namespace, image), manager=_MANAGER)
    try:
        deadline = time.monotonic() + seconds
        while True:
            result = verdict(await _status(api, namespace), out_of_time=time.monotonic() > deadline)
            if result is not None:
                return result
            await asyncio.sleep(_POLL_SECONDS)
    finally:
        await _delete(api, namespace)


async def _status(api: kr8s.asyncio.Api, namespace: str) -> OfflineJobStatus:
    async with api.call_api("GET", version=API_VERSION, namespace=namespace, url=f"offlinejobs/{NAME}") as response:
        return OfflineJobStatus.from_wire(response.json().get("status", {}))


async def _delete(api: kr8s.asyncio.Api, namespace: str) -> None:
    """Deletes the job if it is there. Raises `TimeoutError` when it stays, e.g. since no operator frees it."""
    await _call(api, "DELETE", namespace)
    async with asyncio.timeout(_DELETE_SECONDS):
        while True:
            if await _call(api, "GET", namespace) == HTTPStatus.NOT_FOUND:
                return
            await asyncio.sleep(_POLL_SECONDS)


async def _call(api: kr8s.asyncio.Api, method: str, namespace: str) -> int:
    async with api.call_api(
        method, version=API_VERSION, namespace=namespace, url=f"offlinejobs/{NAME}", raise_for_status=False
    ) as response:
        return response.status_code


async def main() -> int:
    """Runs the test from the environment; returns the exit status."""
    result = await run(
        await kr8s.asyncio.api(),
        os.environ["POD_NAMESPACE"],
        os.environ["ROWEN_SMOKE_IMAGE"],
        float(os.environ.get("ROWEN_SMOKE_SECONDS", "120")),
    )
    sys.stdout.write(f"{'passed' if result.passed else 'FAILED'}: {result.message}\n")
    return 0 if result.passed else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

"""The real operator and the real scheduler, as processes of their own with the rights that the chart gives them."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx
from plane.names import SYSTEM, USERS
from plane.samples import total
from plane.usage import Usage, usage
from rig.processes import python_path

from rowen.cluster.bare.server import ApiServer, end, free_port

_LOOK_SECONDS = 0.2


class Component:
    """A program that can be stopped and started again; its use counts over all its lives."""

    def __init__(self, module: str, environment: Mapping[str, str], metrics_port: int, log: Path) -> None:
        self._module, self._log = module, log
        self._environment = {**os.environ, **python_path(), **environment}
        self._metrics = f"http://127.0.0.1:{metrics_port}/metrics"
        self._process: subprocess.Popen[bytes] | None = None
        self._spent = 0.0
        self.peak_rss_bytes = 0

    def start(self) -> None:
        """A new process."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module], env=self._environment, stdout=log, stderr=log
            )

    def stop(self) -> None:
        """Ends it, as the kubelet would, if it runs."""
        if self._process is None:
            return
        if self._process.poll() is None:
            used = self.usage()
            self._spent += used.cpu_seconds
            end(self._process)
        self._process = None

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process is not None and self._process.poll() is None

    def usage(self) -> Usage:
        """Of the process that runs. Raises `RuntimeError` where it has ended."""
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError(f"{self._module} has ended: {self._log.read_text()[-2000:]}")
        found = usage(self._process.pid)
        self.peak_rss_bytes = max(self.peak_rss_bytes, found.peak_rss_bytes)
        return found

    def cpu_seconds(self) -> float:
        """Of all its processes so far."""
        return self._spent + self.usage().cpu_seconds

    async def metrics(self) -> str:
        """Its metrics; empty while it does not answer."""
        async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
            try:
                return (await client.get(self._metrics)).text
            except httpx.TransportError:
                return ""

    async def restart(self, done: Callable[[str], bool], most_seconds: float) -> float:
        """Seconds from the new process's start until `done` holds of its metrics. Raises `TimeoutError`."""
        self.stop()
        began = time.monotonic()
        self.start()
        while not done(await self.metrics()):
            self.usage()
            if time.monotonic() - began > most_seconds:
                raise TimeoutError(f"{self._module} has not got through within {most_seconds:.0f} s")
            await asyncio.sleep(_LOOK_SECONDS)
        return time.monotonic() - began


def operator(server: ApiServer, folder: Path) -> Component:
    """The operator, not started."""
    metrics_port = free_port()
    environment = {
        "KUBECONFIG": str(server.kubeconfig_for(USERS["operator"])),
        "POD_NAMESPACE": SYSTEM,
        "ROWEN_RUNTIME_IMAGE": "none",
        "ROWEN_HEALTH_PORT": str(free_port()),
        "ROWEN_METRICS_PORT": str(metrics_port),
    }
    return Component("rowen.operator", environment, metrics_port, folder / "operator.log")


def scheduler(server: ApiServer, folder: Path) -> Component:
    """The scheduler, not started."""
    port = free_port()
    environment = {
        "KUBECONFIG": str(server.kubeconfig_for(USERS["scheduler"])),
        "POD_NAMESPACE": SYSTEM,
        "ROWEN_SCHEDULER_PORT": str(port),
        "ROWEN_SCHEDULER_API_PORT": str(free_port()),
    }
    return Component("rowen.scheduler", environment, port, folder / "scheduler.log")


def reconciled(metrics: str, objects: int) -> bool:
    """Whether the operator has looked at so many objects, and got through with each.

    A new operator puts every object into its queue at once, and what comes in again goes to the end: so these are all.
    """
    return total(metrics, "rowen_reconciles_total", result="ok") >= objects


def decided(metrics: str) -> bool:
    """Whether the scheduler has made its first pass over the cluster."""
    return total(metrics, "rowen_decision_seconds_count") >= 1

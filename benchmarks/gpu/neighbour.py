"""Question 3: the step time of an online process beside a tenant that runs, stands still, or stops and starts."""

import threading
import time
from typing import Any

from gpu.process import Process, Setting, WorkerError, worker
from gpu.rounds import percentiles

SECONDS = 8.0
PERIOD = 0.05
AFTERWARDS = 0.005
"""Seconds after a switch whose steps count as its moment."""
ARMS = ("alone", "running", "stopped", "switching")


def _steps(online: Process) -> list[tuple[float, float]]:
    found = online.ask("steps", timeout=60, seconds=SECONDS)["steps"]
    return [(float(at), float(took)) for at, took in found]


class _Switcher:
    """Stops and starts a tenant in turn, and notes when."""

    def __init__(self, tenant: Process) -> None:
        self._tenant = tenant
        self.moments: list[tuple[float, str]] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        stop = True
        while not self._done.wait(PERIOD):
            self.moments.append((time.monotonic(), "stop" if stop else "go"))
            self._tenant.ask("switch", stop=stop)
            stop = not stop
        if not stop:
            self._tenant.ask("switch", stop=False)

    def __enter__(self) -> "_Switcher":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join(10)


def _near(steps: list[tuple[float, float]], moments: list[tuple[float, str]], verb: str) -> list[float]:
    """Steps that were under way at, or began just after, a switch."""
    times = [at for at, name in moments if name == verb]
    return [took for end, took in steps if any(end - took / 1000 <= at + AFTERWARDS and at <= end for at in times)]


def _figures(values: list[float]) -> dict[str, Any]:
    return {"steps": len(values), **percentiles(values)}


def _arm(arm: str, online: Process, tenant: Process) -> dict[str, Any]:
    if arm == "switching":
        with _Switcher(tenant) as switcher:
            steps = _steps(online)
        return {
            "ms": _figures([took for _, took in steps]),
            "ms_near_a_stop": _figures(_near(steps, switcher.moments, "stop")),
            "ms_near_a_go": _figures(_near(steps, switcher.moments, "go")),
        }
    if arm == "stopped":
        status = tenant.ask("switch", stop=True)
        steps = _steps(online)
        tenant.ask("switch", stop=False)
        return {"ms": _figures([took for _, took in steps]), "stop": status}
    return {"ms": _figures([took for _, took in _steps(online)])}


def run(setting: Setting, kind: str, online_setting: Setting) -> dict[str, Any]:
    """Each arm, beside a tenant of a kind; steps in milliseconds."""
    figures: dict[str, Any] = {}
    with worker(online_setting) as online, worker(setting) as tenant:
        online.ask("prepare", kind="graph", seconds=1.0)
        amount = tenant.ask("prepare", kind=kind, seconds=8 * SECONDS)["amount"]
        for arm in ARMS:
            if arm == "running":
                tenant.ask("start", amount=amount)
            try:
                figures[arm] = _arm(arm, online, tenant)
            except WorkerError as error:
                figures[arm] = {"error": str(error)}
    return figures

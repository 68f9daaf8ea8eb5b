"""Question 1: what the hook sees of a CUDA process."""

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpu import trace
from gpu.process import Setting, worker

KINDS = ("iterate", "matmul", "graph", "copy")
IOCTLS = 20_000


def _channels(found: list[dict[str, int]]) -> list[dict[str, Any]]:
    """Channels counted by group, engine and class."""
    counts = Counter(
        (entry["client"], entry["group"], entry["engine"], entry["kind"], entry["compute"], entry["copy"])
        for entry in found
    )
    names = ("client", "group", "engine", "class", "compute", "copy")
    return [
        {**dict(zip(names, map(hex, key), strict=True)), "channels": count} for key, count in sorted(counts.items())
    ]


def _one(setting: Setting, kind: str, folder: Path) -> dict[str, Any]:
    record = folder / f"{kind}.jsonl"
    begin = time.monotonic()
    with worker(replace(setting, trace=record)) as process:
        ready = time.monotonic() - begin
        amount = process.ask("prepare", kind=kind, seconds=2.0)["amount"]
        before = process.ask("channels")
        calls_before = sum(1 for _ in trace.read(record))
        process.ask("start", amount=amount)
        process.ask("wait", timeout=30)
        calls = list(trace.read(record))
        found = process.ask("channels")
    return {
        "start_seconds": round(ready, 3),
        "ioctls": trace.summary(calls),
        "ioctls_after_preparation": len(calls) - calls_before,
        "fds": sorted({call.fd for call in calls if call.escape == trace.ALLOC}),
        "channels": _channels(found),
        "channels_made_at_work": len(found) - len(before),
    }


def _cost(setting: Setting) -> dict[str, Any]:
    """An ioctl with and without the hook; processes take turns."""
    times: dict[str, list[float]] = {"hooked": [], "plain": []}
    for _ in range(3):
        for name, preload in (("hooked", True), ("plain", False)):
            with worker(replace(setting, preload=preload)) as process:
                times[name].append(process.ask("ioctl_cost", path="/dev/nvidiactl", count=IOCTLS)["ns"])
    return {f"{name}_ns": [round(value, 1) for value in values] for name, values in times.items()}


def run(setting: Setting, folder: Path) -> dict[str, Any]:
    """Writes the records of the ioctls into `folder`."""
    found = {kind: _one(setting, kind, folder) for kind in KINDS}
    return {"kinds": found, "ioctl_cost": _cost(setting)}

"""Question 2: stopping and starting a tenant's channels: who may, how fast, and whether anything is lost.

Three routes: `inside` (a thread of the tenant), `descriptor` (another process with a copy of the tenant's descriptor)
and `foreign` (another process's own client, which names the tenant's handles).
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from gpu.library import Library, status_name
from gpu.process import BENCHMARKS, NOBODY, Process, Setting, WorkerError, descriptor_of, worker
from gpu.rounds import Switch, measure

SECONDS = 8.0
LONG_HOLD = 30.0
# Work whose beats are further apart is held longer, so that a beat would fall into the hold. (rounds, seconds held)
ROUNDS = {
    "iterate": (1000, 0.001),
    "matmul": (200, 0.01),
    "long-matmul": (20, 0.4),
    "graph": (200, 0.01),
    "copy": (50, 0.05),
}


def _grouped(channels: list[dict[str, int]]) -> Iterator[tuple[dict[str, int], list[tuple[int, int]]]]:
    """Channels that one call can name: those of a client and subdevice."""
    groups: dict[tuple[int, int], list[dict[str, int]]] = {}
    for channel in channels:
        groups.setdefault((channel["client"], channel["subdevice"]), []).append(channel)
    for members in groups.values():
        yield members[0], [(member["client"], member["channel"]) for member in members]


@contextmanager
def by_descriptor(library: Library, pid: int, channels: list[dict[str, int]]) -> Iterator[Switch]:
    """The tenant's client, on a copy of its descriptor."""
    groups = [(descriptor_of(pid, first["fd"]), first, pairs) for first, pairs in _grouped(channels)]

    def switch(stop: bool) -> int:
        statuses = (
            library.switch(fd, first["client"], first["subdevice"], pairs, stop=stop) for fd, first, pairs in groups
        )
        return next((status for status in statuses if status), 0)

    yield switch


@contextmanager
def by_own_client(library: Library, pid: int, channels: list[dict[str, int]]) -> Iterator[Switch]:
    """A client of this process, with the tenant's handles in the list. Raises `WorkerError`."""
    status, own = library.open(0)
    if status:
        raise WorkerError(f"own client: {status_name(status)}")
    pairs = [(entry["client"], entry["channel"]) for entry in channels]
    try:
        yield lambda stop: library.switch(own.control_fd, own.client, own.subdevice, pairs, stop=stop)
    finally:
        library.close(own)


OUTSIDE = {"descriptor": by_descriptor, "foreign": by_own_client}

Route = Callable[[Process, int, float, int], dict[str, Any]]


def _inside(process: Process, count: int, hold: float, seed: int) -> dict[str, Any]:
    found: dict[str, Any] = process.ask("rounds", timeout=300, count=count, hold=hold, seed=seed)
    return found


def _outside(library: Library, name: str) -> Route:
    def rounds(process: Process, count: int, hold: float, seed: int) -> dict[str, Any]:
        with OUTSIDE[name](library, process.popen.pid, process.ask("channels")) as switch:
            return measure(switch, process.counters.values, count, hold, seed)

    return rounds


def routes(library: Library) -> dict[str, Route]:
    """The three of them."""
    return {"inside": _inside, **{name: _outside(library, name) for name in OUTSIDE}}


def _one(setting: Setting, kind: str, route: Route, seed: int, *, count: int | None = None) -> dict[str, Any]:
    """Rounds on a workload, and whether its result is what it is without them."""
    rounds, hold = ROUNDS[kind]
    with worker(setting) as process:
        amount = process.ask("prepare", kind=kind, seconds=SECONDS)["amount"]
        process.ask("start", amount=amount)
        undisturbed = process.ask("wait", timeout=120)
        process.ask("prepare", kind=kind, seconds=0.5)
        process.ask("start", amount=amount)
        try:
            figures = route(process, count or rounds, hold, seed)
        except (OSError, WorkerError) as error:
            figures = {"ended": str(error), "rounds": 0}
        outcome = process.ask("wait", timeout=120)
        if outcome.get("pending"):
            process.ask("switch", stop=False)
            outcome = process.ask("wait", timeout=120)
        same = outcome.get("digest") == undisturbed.get("digest")
        return {**figures, "outcome": outcome, "same_result": same}


def every_kind(setting: Setting, seed: int) -> dict[str, Any]:
    """Each workload, from inside."""
    return {kind: _one(setting, kind, _inside, seed) for kind in ROUNDS}


def every_route(setting: Setting, seed: int) -> dict[str, Any]:
    """Each route, on the long kernel."""
    library = Library(setting.library)
    return {name: _one(setting, "iterate", route, seed) for name, route in routes(library).items()}


def without_privilege(setting: Setting, seed: int) -> dict[str, Any]:
    """The route from inside, in a tenant that is nobody."""
    return _one(replace(setting, user=NOBODY), "iterate", _inside, seed, count=100)


def _kernel_log() -> list[str]:
    found = subprocess.run(["dmesg"], capture_output=True, text=True, timeout=20, check=False)
    return [line for line in found.stdout.splitlines() if "NVRM" in line or "Xid" in line]


def long_stop(setting: Setting) -> dict[str, Any]:
    """Channels that stay stopped for half a minute."""
    known = len(_kernel_log())
    with worker(setting) as process:
        amount = process.ask("prepare", kind="iterate", seconds=SECONDS)["amount"]
        process.ask("start", amount=amount)
        undisturbed = process.ask("wait", timeout=120)
        process.ask("start", amount=amount)
        stopped = process.ask("switch", stop=True)
        time.sleep(0.01)
        moved = process.counters.moved(LONG_HOLD)
        started = process.ask("switch", stop=False)
        outcome = process.ask("wait", timeout=120)
    return {
        "stop": stopped, "go": started, "counters_moved": moved, "outcome": outcome,
        "same_result": outcome.get("digest") == undisturbed.get("digest"), "kernel_log": _kernel_log()[known:],
    }  # fmt: skip


STOPPER = """
import json, sys, time
from pathlib import Path
from gpu.library import Library
from gpu.switching import OUTSIDE
route, pid, channels = sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
with OUTSIDE[route](Library(Path(sys.argv[1])), pid, channels) as switch:
    print(switch(True), flush=True)
    time.sleep(60)
"""


def stopper_dies(setting: Setting, route: str) -> dict[str, Any]:
    """What becomes of the tenant when the process that has stopped it is killed."""
    with worker(setting) as process:
        amount = process.ask("prepare", kind="iterate", seconds=SECONDS)["amount"]
        process.ask("start", amount=amount)
        channels = process.ask("channels")
        stopper = subprocess.Popen(
            [sys.executable, "-c", STOPPER, str(setting.library), route, str(process.popen.pid), json.dumps(channels)],
            env={**os.environ, "PYTHONPATH": str(BENCHMARKS)}, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert stopper.stdout is not None
        status = stopper.stdout.readline()
        time.sleep(0.05)
        moved_before = process.counters.moved(0.2)
        stopper.kill()
        stopper.wait(20)
        time.sleep(0.5)
        moved_after = process.counters.moved(0.5)
        started = process.ask("switch", stop=False)
        outcome = process.ask("wait", timeout=120)
    return {
        "stop": status_name(int(status)) if status else "the stopper failed",
        "counters_moved_while_stopped": moved_before, "counters_moved_after_its_death": moved_after,
        "go_from_inside": started, "outcome": outcome,
    }  # fmt: skip


def tenant_dies(setting: Setting) -> dict[str, Any]:
    """A tenant that is killed while it is stopped: how long it takes to go, and whether the GPU serves the next."""
    with worker(setting) as process:
        amount = process.ask("prepare", kind="iterate", seconds=SECONDS)["amount"]
        process.ask("start", amount=amount)
        stopped = process.ask("switch", stop=True)
        gone = process.end()
    with worker(setting) as process:
        process.ask("prepare", kind="iterate", seconds=1.0)
        process.ask("start", amount=1_000_000)
        outcome = process.ask("wait", timeout=60)
    return {"stop": stopped, "seconds_until_gone": round(gone, 3), "next_tenant": outcome}

"""An online engine: serves requests of several decode steps, one at a time, and notes when each began and ended.

    python -m preemption.engine LIBRARY SOCKET

Each line on standard input is a `Load` as JSON, answered by a line: begin and end of each request, in nanoseconds of
CLOCK_MONOTONIC. It says "ready" first.
"""

import contextlib
import ctypes
import json
import os
import random
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from preemption.record import Record
from rig.attaching import attach

STEP_NS = 1_000_000
NICE = -10
"""The engine goes before whatever else runs on the machine, as its share of CPU makes it do in a cluster."""
_SHORTEST_PAUSE = 0.001


@dataclass(frozen=True)
class Load:
    """Requests that come. It ends after so many seconds anyhow."""

    requests: int
    seconds: float
    steps: int
    """Of each request."""
    gap: float
    """Seconds between two steps."""
    every_gap: bool
    """Whether the device is told that the engine is idle after every step."""
    seed: int
    records: tuple[str, ...]
    """Of the tenants. The next request comes some time after each of them has run again."""
    longest_pause: float = 0.004
    """Of that time; seconds."""

    def to_json(self) -> str:
        """As `main` reads it."""
        return json.dumps(asdict(self))


class Engine:
    """Serves, and tells the device."""

    def __init__(self, library: str, socket: str) -> None:
        """Raises `OSError` when it cannot attach."""
        self._library = ctypes.CDLL(library)
        self._library.rowen_online_step.argtypes = [ctypes.c_uint64] * 2
        self._library.rowen_online_record.argtypes = [ctypes.c_uint64] * 3 + [ctypes.c_uint32] * 2
        for error in (attach(self._library, socket), self._library.rowen_online_pin()):
            if error:
                raise OSError(-error, "the engine cannot attach to the device")

    def serve_all(self, load: Load) -> list[tuple[int, int]]:
        """Begin and end of each request."""
        source, records = random.Random(load.seed), [Record(Path(path)) for path in load.records]
        deadline = time.monotonic_ns() + round(load.seconds * 1e9)
        served: list[tuple[int, int]] = []
        idle_since = 0
        while len(served) < load.requests and time.monotonic_ns() < deadline:
            if any(record.last_ns() <= idle_since for record in records):
                time.sleep(0.0005)
                continue
            time.sleep(source.uniform(_SHORTEST_PAUSE, load.longest_pause))
            served.append(self._serve(load))
            idle_since = time.monotonic_ns()
        return served

    def _serve(self, load: Load) -> tuple[int, int]:
        begin = time.monotonic_ns()
        self._library.rowen_online_busy()
        first = end = self._step(told=not load.every_gap)
        for _ in range(load.steps - 1):
            if load.every_gap:
                self._library.rowen_online_idle()
            time.sleep(load.gap)
            if load.every_gap:
                self._library.rowen_online_busy()
            end = self._step(told=not load.every_gap)
        # As long as the request holds the gate: the next stop is not its own.
        per_token = (end - first) // max(1, load.steps - 1)
        self._library.rowen_online_record(begin, first - begin, per_token, load.steps, 1)
        self._library.rowen_online_idle()
        return begin, end

    def _step(self, *, told: bool) -> int:
        begin = end = time.monotonic_ns()
        while end - begin < STEP_NS:
            end = time.monotonic_ns()
        if told:
            self._library.rowen_online_step(begin, end)
        return end


def main() -> None:
    """Serves what it is told to until its standard input ends."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
    engine = Engine(sys.argv[1], sys.argv[2])
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(engine.serve_all(Load(**json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()

"""A process with work on the GPU: reads commands on standard input, answers each with a line of JSON.

Started by `gpu.process.Process`, with the gate library preloaded where it is to be stopped.
"""

import ctypes
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpu.counters import Counters
from gpu.cuda import Device
from gpu.library import Library
from gpu.memory import Shared, remap_under_a_stop, time_pool
from gpu.rounds import measure
from gpu.workloads import Workload, amount_for, make

CARD_INFO_BYTES = 32 * 72

# The thread that stops waits for the interpreter no longer than this behind the one that queues work.
sys.setswitchinterval(1e-5)


class Worker:
    """One workload at a time, in a thread of its own."""

    def __init__(self, library: Path, counters: Path) -> None:
        self._library = Library(library)
        self._device = Device()
        self._counters = Counters(counters)
        self._workload: Workload | None = None
        self._thread: threading.Thread | None = None
        self._outcome: dict[str, Any] = {}
        self._shared: Shared | None = None

    def prepare(self, kind: str, seconds: float) -> dict[str, Any]:
        """Makes a workload; says how many pieces take about so long."""
        self._workload = make(kind, self._device, self._counters)
        return {"amount": amount_for(self._workload, kind, seconds)}

    def start(self, amount: int) -> dict[str, Any]:
        """Begins `amount` pieces, and returns once the first beat is there."""
        workload = self._workload
        if workload is None or (self._thread and self._thread.is_alive()):
            raise RuntimeError("not prepared, or still at work")
        known = int(self._counters.values.sum())
        self._thread = threading.Thread(target=self._run, args=(workload, amount), daemon=True)
        self._thread.start()
        end = time.monotonic() + 20
        while int(self._counters.values.sum()) == known and time.monotonic() < end:
            time.sleep(0.001)
        return {"running": int(self._counters.values.sum()) != known}

    def _run(self, workload: Workload, amount: int) -> None:
        self._device.enter()
        begin = time.perf_counter()
        try:
            digest = workload.run(amount)
            self._outcome = {"digest": digest, "seconds": round(time.perf_counter() - begin, 3)}
        except Exception as error:
            self._outcome = {"error": f"{type(error).__name__}: {error}"}

    def wait(self, timeout: float) -> dict[str, Any]:
        """What the work gave, or `pending`."""
        if self._thread:
            self._thread.join(timeout)
            if self._thread.is_alive():
                return {"pending": True}
        return self._outcome

    def channels(self) -> list[dict[str, int]]:
        """This process's channels."""
        return [asdict(channel) for channel in self._library.channels()]

    def switch(self, stop: bool) -> dict[str, Any]:
        """Stops or starts all channels."""
        begin = time.perf_counter_ns()
        status = self._library.switch_all(stop=stop)
        return {"status": status, "took_us": (time.perf_counter_ns() - begin) / 1000}

    def rounds(self, count: int, hold: float, seed: int) -> dict[str, Any]:
        """Stops and starts, from inside."""
        return measure(lambda stop: self._library.switch_all(stop=stop), self._counters.values, count, hold, seed)

    def steps(self, seconds: float) -> dict[str, Any]:
        """Runs the workload piece by piece, as an online engine does; milliseconds of each, with its time."""
        workload, begin = self._workload, time.monotonic()
        if workload is None:
            raise RuntimeError("not prepared")
        steps = []
        while time.monotonic() - begin < seconds:
            at = time.perf_counter_ns()
            workload.run(1)
            steps.append((time.monotonic(), (time.perf_counter_ns() - at) / 1e6))
        return {"steps": steps}

    def ioctl_cost(self, path: str, count: int) -> dict[str, Any]:
        """Nanoseconds of an ioctl that the driver answers by itself, called as CUDA calls it."""
        libc = ctypes.CDLL(None)
        buffer = ctypes.create_string_buffer(CARD_INFO_BYTES)
        request = ctypes.c_ulong(0xC0000046 | CARD_INFO_BYTES << 16 | 200 << 8)
        fd = os.open(path, os.O_RDWR)
        try:
            begin = time.perf_counter_ns()
            for _ in range(count):
                if libc.ioctl(fd, request, buffer) != 0:
                    raise OSError("the driver refused NV_ESC_CARD_INFO")
            return {"ns": (time.perf_counter_ns() - begin) / count}
        finally:
            os.close(fd)

    def pool(self, counts: list[int]) -> dict[str, Any]:
        """Times of the virtual memory API."""
        return time_pool(self._device, counts)

    def share(self, value: int) -> dict[str, int]:
        """Makes a page for another process."""
        self._shared = Shared(self._device)
        return {"pid": os.getpid(), "descriptor": self._shared.make(value)}

    def adopt(self, pid: int, descriptor: int, value: int) -> dict[str, Any]:
        """Maps a page of another process; says what is in it, and fills it anew."""
        self._shared = Shared(self._device)
        self._shared.adopt(pid, descriptor)
        found = self._shared.read()
        self._shared.write(value)
        return {"found": found}

    def read_shared(self) -> list[int]:
        """What is in the page now."""
        if self._shared is None:
            raise RuntimeError("nothing is shared")
        return self._shared.read()

    def remap(self, pages: int, taken: int) -> dict[str, Any]:
        """Takes pages away under a stop, while a kernel is at work on them."""
        return remap_under_a_stop(self._device, self._library, self._counters, pages, taken)


def main() -> None:
    """Answers until standard input ends."""
    worker = Worker(Path(sys.argv[1]), Path(sys.argv[2]))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        verb: Callable[..., Any] = getattr(worker, request.pop("do"))
        try:
            answer = {"ok": verb(**request)}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

"""How long it takes until memory that is taken from stopped offline work belongs to the engine.

A tenant holds 256 handles of 2 MiB, every second one of its range, and two of its threads write into them all the time.
It is stopped; the engine, a process that waits for a grant, is to get 1, 16 or 256 of them. From then on, with the
tenant at a standstill (the gate's acknowledgement), three times are taken:

    start      all handles are the engine's: taken, freed, granted
    first      the engine has seen a grant, of the first handles at least
    mapped     the engine has mapped all of them, zeroed

once with the kernel's plain pages, and once with huge pages where it can be made to reserve some. The machine's own
jitter is how much a sleep of 1 ms overshoots, measured all the while.

What the choice of the handles is worth to the tenant is simulated, and its time is measured: selection.py.
"""

import argparse
import contextlib
import mmap
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from reporting.jitter import Jitter, percentile
from reporting.report import Figures, Missing, print_report, report
from rig.child import read
from selection import Selection, measure_selection

from rowen.node_agent.devices.library import agent_library
from rowen.node_agent.memory.pool import HANDLE_BYTES, Pool
from rowen.node_agent.memory.pool_status import Kind
from rowen.node_agent.native import library_path

HELD = 256
"""Handles that the tenant holds, which are the whole pool."""
COUNTS = (1, 16, HELD)
HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")

OPEN = """
import ctypes, random, sys, threading, time
from rowen.runtime.memory.native_arena import NativeArena
library = ctypes.CDLL(sys.argv[1])
library.rowen_arena_quarantine.argtypes = [ctypes.c_void_p]
arena = NativeArena(library, int(sys.argv[2]), int(sys.argv[3]))
"""

TENANT = (
    OPEN
    + """
handles = list(range(0, arena.capacity, 2))
base = ctypes.addressof(ctypes.c_char.from_buffer(arena.buffer))

def write(source):
    while True:
        at = source.choice(handles) * arena.handle_bytes + source.randrange(arena.handle_bytes // 4096) * 4096
        ctypes.memset(base + at, 1, 4096)

arena.want(len(handles))
lost = handles
for line in sys.stdin:
    assert arena.wait(len(handles), 60), "no grant"
    assert arena.map(lost) == len(lost), "no memory"
    if threading.active_count() == 1:
        for seed in range(2):
            threading.Thread(target=write, args=(random.Random(seed),), daemon=True).start()
    print("mapped", flush=True)
    sys.stdin.readline()
    assert library.rowen_arena_quarantine(arena._handle) == 0
    lost = arena.lost()
    print(len(lost), flush=True)
"""
)

ENGINE = (
    OPEN
    + """
for line in sys.stdin:
    count = int(line)
    assert arena.wait(1, 60), "no grant"
    first, mapped = time.monotonic_ns(), 0
    while mapped < count:
        mapped += arena.map(range(mapped, count))
    print(first, time.monotonic_ns(), flush=True)
    sys.stdin.readline()
    arena.unmap(range(count))
    print("free", flush=True)
"""
)


@dataclass
class Samples:
    """Of one number of handles. Milliseconds."""

    start: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    mapped: list[float] = field(default_factory=list)


def tell(child: "subprocess.Popen[str]", line: str) -> None:
    """Gives a process of the benchmark a line."""
    assert child.stdin is not None
    child.stdin.write(line + "\n")
    child.stdin.flush()


@contextmanager
def stopped(child: "subprocess.Popen[str]") -> Iterator[None]:
    """The process stands still, every thread of it."""
    os.kill(child.pid, signal.SIGSTOP)
    os.waitpid(child.pid, os.WUNTRACED)
    try:
        yield
    finally:
        os.kill(child.pid, signal.SIGCONT)


class Bench:
    """A pool, all of which the tenant holds, and an engine that waits for some of it."""

    def __init__(self, stack: ExitStack, *, huge: bool) -> None:
        self.pool = Pool(HELD, HANDLE_BYTES, huge=huge)
        stack.callback(self.pool.close)
        self.huge = self.pool.status().page_bytes > mmap.PAGESIZE
        self._offline = self.pool.admit(Kind.OFFLINE, 2 * HELD)
        self._online = self.pool.admit(Kind.ONLINE, HELD)
        self.pool.share(self._offline.number, 0, HELD)
        self._tenant = stack.enter_context(self._member(TENANT, self._offline.arena, self._offline.memory))
        self._engine = stack.enter_context(self._member(ENGINE, self._online.arena, self._online.memory))

    @contextmanager
    def _member(self, code: str, *files: int) -> Iterator["subprocess.Popen[str]"]:
        command = [sys.executable, "-c", code, str(library_path()), *map(str, files)]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=files)
        try:
            yield child
        finally:
            child.kill()
            child.wait()

    def _aim(self, handles: int) -> None:
        number = self._online.number
        self.pool.demand(number, pressures=0, target=handles, growth=0, threshold=1.0)

    def round(self, count: int, samples: Samples) -> None:
        """Takes so many handles once, and puts everything back."""
        tell(self._tenant, "map")
        while not self.pool.serve(time.monotonic(), offline_stopped=False) and self._granted() < HELD:
            time.sleep(0.001)
        read(self._tenant)
        tell(self._engine, str(count))
        self._aim(count)
        with stopped(self._tenant):
            begin = time.monotonic_ns()
            missing = self.pool.serve(time.monotonic(), offline_stopped=True)
            end = time.monotonic_ns()
            if missing:
                raise RuntimeError(f"{missing} of {count} handles could not be taken")
            first, mapped = map(int, read(self._engine).split())
            # Its threads go on before their handles are quarantined, and would find no huge page left.
            tell(self._engine, "unmap")
            read(self._engine)
        samples.start.append((end - begin) / 1e6)
        samples.first.append((first - begin) / 1e6)
        samples.mapped.append((mapped - begin) / 1e6)
        self._aim(0)
        tell(self._tenant, "quarantine")
        read(self._tenant)

    def _granted(self) -> int:
        return self.pool.status().of(self._offline.number).granted


@contextmanager
def huge_pages(count: int) -> Iterator[str | None]:
    """Has the kernel reserve huge pages, and puts it back; yields why not."""
    before = HUGE_PAGES.read_text()
    try:
        HUGE_PAGES.write_text(str(int(before) + count))
    except OSError as error:
        yield f"no huge pages can be reserved: {error.strerror}"
        return
    try:
        missing = int(before) + count - int(HUGE_PAGES.read_text())
        yield f"{missing} of {count} huge pages could not be reserved" if missing > 0 else None
    finally:
        HUGE_PAGES.write_text(before)


def measure(rounds: int, seed: int, jitter: Jitter, *, huge: bool) -> dict[int, Samples]:
    """Number of handles → what so many rounds with each have shown."""
    samples = {count: Samples() for count in COUNTS}
    order = [count for count in COUNTS for _ in range(rounds)]
    random.Random(seed).shuffle(order)
    with ExitStack() as stack:
        bench = Bench(stack, huge=huge)
        assert bench.huge == huge
        with jitter.measured(), device_thread():
            bench.round(HELD, Samples())
            for count in order:
                bench.round(count, samples[count])
    return samples


@contextmanager
def device_thread() -> Iterator[None]:
    """Has this thread the priority that the agent's thread for a device has."""
    policy, parameter = os.sched_getscheduler(0), os.sched_getparam(0)
    agent_library().rowen_raise(0)
    try:
        yield
    finally:
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, policy, parameter)


def figures_of(pages: str, samples: dict[int, Samples]) -> dict[str, tuple[float | Missing, str]]:
    """As a report's figures, one of each kind per number of handles."""
    figures: dict[str, tuple[float | Missing, str]] = {}
    for count, found in samples.items():
        for kind, times in (("start", found.start), ("first", found.first), ("mapped", found.mapped)):
            for rank, fraction in (("p50", 0.5), ("p99", 0.99)):
                figures[f"{kind}_ms_{rank}_{pages}_{count}"] = (percentile(times, fraction), "ms")
    return figures


def run(rounds: int, seed: int, selection: Selection) -> dict[str, Any]:
    """So many rounds per page size and number of handles, beside what was found of the selection."""
    jitter = Jitter()
    plain = measure(rounds, seed, jitter, huge=False)
    with huge_pages(HELD) as refused:
        large = None if refused else measure(rounds, seed, jitter, huge=True)
    figures: Figures = {
        # Of the pages that a node for this would have.
        "start_ms_p99": (percentile((large or plain)[HELD].start, 0.99), "ms"),
        **figures_of("4kib", plain),
        **(figures_of("2mib", large) if large else {f"start_ms_p99_2mib_{HELD}": (Missing(str(refused)), "ms")}),
        "rounds": (float(rounds), "1"),
        "jitter_ms_p50": (percentile(jitter.samples, 0.5), "ms"),
        "jitter_ms_p99": (percentile(jitter.samples, 0.99), "ms"),
        "load_average": (os.getloadavg()[0], "1"),
        **selection.figures,
    }
    obj = report("reclaim", seed, figures, selection.baselines, ("rowen",))
    obj["repeats"] = {
        pages: {str(count): {f"{name}_ms": times for name, times in asdict(found).items()} for count, found in by_count}
        for pages, by_count in (("4kib", plain.items()), ("2mib", (large or {}).items()))
    } | {"jitter": jitter.raw(), **selection.repeats}
    return obj


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object, with raw values")
    parser.add_argument("--quick", action="store_true", help="20 rounds of each kind instead of 100")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    selection = measure_selection(arguments.seed, arguments.quick)
    print_report(run(20 if arguments.quick else 100, arguments.seed, selection), arguments.json)


if __name__ == "__main__":
    main()

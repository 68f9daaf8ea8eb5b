"""How fast offline work stops, and how often a request has to stop it, against two other ways of doing so.

An engine process, pinned to the device's CPU, serves requests of several decode steps. A PyTorch tenant multiplies
matrices on two threads of the same CPU; every other CPU is kept busy. Three ways take turns, block by block, in one
run:

    rowen              the gate: closes when a request arrives, opens by the wake rule
    wake_every_gap     the same gate, told that the engine is idle after every step
    engine_step        the tenant stops at the end of its own training step, as a cooperating tenant would

The latency is from the engine turning busy to the acknowledgement, which a tenant gives after the last of its
threads has stopped. The machine's own jitter is how much a sleep of 1 ms overshoots, measured all the while.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from report import Figures, print_report, report

from rowen.node_agent.device import Device
from rowen.node_agent.native import library_path

SLOTS = 1
BACKSTOP_SECONDS = 0.5
# Between two decode steps. Above the gate's floor of 2 ms, so that an engine that says idle there is taken at its word.
GAP_SECONDS = 0.004
BLOCKS = 2
# Parts of the time that the three ways may take at most.
ROWEN_PART, BASELINE_PART = 0.6, 0.2
# The engine goes before whatever else runs on the machine, as its share of CPU makes it do in a cluster.
ENGINE_NICE = -10

ENGINE = """
import ctypes, json, random, sys, time
library = ctypes.CDLL(sys.argv[1])
library.rowen_online_attach.argtypes = [ctypes.c_char_p]
library.rowen_online_gate.restype = ctypes.c_uint32
library.rowen_online_step.argtypes = [ctypes.c_uint64, ctypes.c_uint64]
assert library.rowen_online_attach(sys.argv[2].encode()) == 0
assert library.rowen_online_pin() == 0
now = time.monotonic_ns

def step(milliseconds):
    begin = now()
    while now() - begin < milliseconds * 1e6:
        pass
    return begin, now()

def closes(before, after):
    return ((after + 1) >> 1) - ((before + 1) >> 1)

def serve(request_steps, gap, every_gap):
    before = library.rowen_online_gate()
    library.rowen_online_busy()
    for number in range(request_steps):
        if every_gap and number:
            library.rowen_online_busy()
        begin, end = step(1.0)
        if every_gap:
            library.rowen_online_idle()
        else:
            library.rowen_online_step(begin, end)
        if number + 1 < request_steps:
            time.sleep(gap)
    if not every_gap:
        library.rowen_online_idle()
    return closes(before, library.rowen_online_gate())

for line in sys.stdin:
    job = json.loads(line)
    source = random.Random(job["seed"])
    counts, deadline = [], now() + job["seconds"] * 1e9
    while len(counts) < job["requests"] and now() < deadline:
        while library.rowen_online_gate() % 2 and now() < deadline:
            time.sleep(0.0005)
        time.sleep(source.uniform(0.001, 0.004))
        counts.append(serve(job["steps"], job["gap"], job["every_gap"]))
    print(json.dumps(counts), flush=True)
"""

TENANT = """
import sys, torch
torch.set_num_threads(2)
a, b = torch.rand(384, 384), torch.rand(384, 384)
print("running", flush=True)
while True:
    a @ b
"""

# Stops between its steps only: 12 products of 384 x 384 stand for forward, backward and optimizer.
STEPPING_TENANT = """
import mmap, os, struct, sys, time, torch
os.sched_setaffinity(0, {int(sys.argv[3])})
torch.set_num_threads(2)
with open(sys.argv[1], "rb") as file:
    page = mmap.mmap(file.fileno(), 4096, access=mmap.ACCESS_READ)
GATE = int(sys.argv[2])
a, b = torch.rand(384, 384), torch.rand(384, 384)
gate = lambda: struct.unpack_from("<I", page, GATE)[0]
print("running", flush=True)
while True:
    seen = gate()
    if seen % 2:
        print(seen, time.monotonic_ns(), flush=True)
        while gate() == seen:
            time.sleep(0.0002)
    for _ in range(12):
        a @ b
"""
# Offset of the gate word in the device page, and of the time of the last close (rowen_abi.h).
GATE_OFFSET = 192

SPIN = "while True: pass"


@contextmanager
def process(code: str, *arguments: str, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    """A Python process that is killed in the end."""
    child = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def read(child: "subprocess.Popen[str]") -> str:
    """The next line. Raises `RuntimeError` when the process has ended."""
    assert child.stdout is not None
    line = child.stdout.readline()
    if not line:
        raise RuntimeError(f"a process of the benchmark ended with status {child.wait()}")
    return line


class Jitter:
    """How much a sleep of 1 ms overshoots, while a block runs. Milliseconds."""

    def __init__(self) -> None:
        self.samples: list[float] = []

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measures in a thread of its own."""
        stop = threading.Event()

        def sleep() -> None:
            while not stop.is_set():
                begin = time.perf_counter()
                time.sleep(0.001)
                self.samples.append((time.perf_counter() - begin - 0.001) * 1e3)

        thread = threading.Thread(target=sleep)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def percentile(samples: list[float], fraction: float) -> float:
    """Nearest rank."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(fraction * len(ordered)) - 1)] if ordered else math.nan


@dataclass(frozen=True)
class Load:
    """Requests of one block, and the seconds after which it ends anyhow."""

    requests: int
    seconds: float


class Bench:
    """A device with an engine on it; each way has its own, so that none inherits another's decode gaps."""

    def __init__(self, stack: ExitStack, jitter: Jitter, seed: int) -> None:
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
        self.cpu = max(os.sched_getaffinity(0))
        self.device = Device(self.folder, slots=SLOTS, cpus=[self.cpu], backstop=BACKSTOP_SECONDS)
        stack.callback(self.device.close)
        self.device.start()
        self.device.renew(time.monotonic() + 24 * 3600)
        self.page = str(self.folder / "device.page")
        self.engine = stack.enter_context(process(ENGINE, str(library_path()), self.page))
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, self.engine.pid, ENGINE_NICE)
        self.jitter = jitter
        self._seed = seed

    def serve(self, load: Load, *, every_gap: bool, gap: float) -> list[int]:
        """Serves requests; returns the closes that each has met."""
        self._seed += 1
        job = {**asdict(load), "steps": 4, "gap": gap, "every_gap": every_gap}
        assert self.engine.stdin is not None
        with self.jitter.measured():
            self.engine.stdin.write(json.dumps({**job, "seed": self._seed}) + "\n")
            self.engine.stdin.flush()
            counts: list[int] = json.loads(read(self.engine))
        return counts

    @contextmanager
    def gated_tenant(self) -> Iterator[None]:
        """A tenant behind the gate."""
        pages = {"ROWEN_DEVICE_PAGE": self.page, "ROWEN_TENANT_PAGE": str(self.folder / "tenant-0.page")}
        with process(TENANT, LD_PRELOAD=str(library_path()), **pages) as tenant:
            read(tenant)
            yield

    @contextmanager
    def stepping_tenant(self) -> Iterator[dict[int, int]]:
        """A tenant that looks at the gate between its steps; yields gate word → time in ns at which it stopped."""
        stops: dict[int, int] = {}
        with process(STEPPING_TENANT, self.page, str(GATE_OFFSET), str(self.cpu)) as tenant:
            read(tenant)

            def collect() -> None:
                assert tenant.stdout is not None
                for line in tenant.stdout:
                    word, at = line.split()
                    stops.setdefault(int(word), int(at))

            thread = threading.Thread(target=collect)
            thread.start()
            yield stops
            tenant.kill()
            thread.join()


class Samples:
    """What one way has shown so far. Milliseconds."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self.per_request: list[int] = []

    def figures(self) -> dict[str, tuple[float, str]]:
        """As a report's figures."""
        counts = self.per_request
        return {
            "stop_latency_ms_p50": (percentile(self.latencies, 0.5), "ms"),
            "stop_latency_ms_p99": (percentile(self.latencies, 0.99), "ms"),
            "stop_latency_ms_max": (max(self.latencies, default=math.nan), "ms"),
            "stops": (float(len(self.latencies)), "1"),
            "preemptions_per_request_mean": (sum(counts) / len(counts) if counts else math.nan, "1"),
            "preemptions_per_request_max": (float(max(counts, default=0)), "1"),
        }


def gate_block(bench: Bench, samples: Samples, load: Load, *, every_gap: bool, gap: float) -> None:
    """One block behind the gate."""
    with bench.gated_tenant():
        done = bench.device.closings(0)
        after = done[-1].number if done else 0
        samples.per_request += bench.serve(load, every_gap=every_gap, gap=gap)
        samples.latencies += [
            (closing.acknowledged - closing.closed) * 1e3
            for closing in bench.device.closings(after)
            if closing.acknowledged is not None and closing.tenants and closing.for_request
        ]


def step_block(bench: Bench, samples: Samples, load: Load, gap: float) -> None:
    """One block with the tenant that stops between its steps."""
    with bench.stepping_tenant() as stops:
        done = bench.device.closings(0)
        after = done[-1].number if done else 0
        samples.per_request += bench.serve(load, every_gap=False, gap=gap)
        closings = bench.device.closings(after)
        ordered = sorted(stops.values())
        for closing in closings:
            end = math.inf if closing.opened is None else closing.opened * 1e9
            within = [at for at in ordered if closing.closed * 1e9 <= at <= end]
            # A step that outlasts the request never stopped for it: the time to its end is the least that it took.
            stopped = within[0] / 1e9 if within else closing.opened
            if stopped is not None:
                samples.latencies.append((stopped - closing.closed) * 1e3)


def run(requests: int, seconds: float, seed: int) -> dict[str, Any]:
    """The whole benchmark: so many requests for Rowen, a sixth for each baseline, at most so long."""
    rowen, every_gap, engine_step = Samples(), Samples(), Samples()
    own = Load(requests // BLOCKS, ROWEN_PART * seconds / BLOCKS)
    other = Load(requests // BLOCKS // 6, BASELINE_PART * seconds / BLOCKS)
    jitter = Jitter()
    with ExitStack() as stack:
        benches = [Bench(stack, jitter, seed) for _ in range(3)]
        for cpu in sorted(os.sched_getaffinity(0))[:-1]:
            os.sched_setaffinity(stack.enter_context(process(SPIN)).pid, {cpu})
        for _ in range(BLOCKS):
            gate_block(benches[0], rowen, own, every_gap=False, gap=GAP_SECONDS)
            gate_block(benches[1], every_gap, other, every_gap=True, gap=GAP_SECONDS)
            step_block(benches[2], engine_step, other, gap=GAP_SECONDS)
        backstops = benches[0].device.counts().backstops
    figures: Figures = {
        **rowen.figures(),
        "jitter_ms_p50": (percentile(jitter.samples, 0.5), "ms"),
        "jitter_ms_p99": (percentile(jitter.samples, 0.99), "ms"),
        "backstops": (float(backstops), "1"),
        "load_average": (os.getloadavg()[0], "1"),
    }
    baselines = {"wake_every_gap": every_gap.figures(), "engine_step": engine_step.figures()}
    return report("preempt", seed, figures, baselines, ("rowen", "torch"))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="1,200 requests in at most 4 minutes")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    requests, seconds = (1200, 220.0) if arguments.quick else (6000, 1200.0)
    print_report(run(requests, seconds, arguments.seed), arguments.json)


if __name__ == "__main__":
    main()

"""Question 5: what else there is: green contexts, time slices and one-off preemption, and what MPS changes."""

import ctypes
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from gpu.library import Library, status_name
from gpu.process import Process, Setting, WorkerError, descriptor_of, worker
from gpu.rounds import percentiles

SET_TIMESLICE, PREEMPT = 0xA06C0103, 0xA06C0105
ROUNDS = 300
SLICES_US = (1, 1024, 100_000)
DEFAULT_SLICE_US = 1024
COMPUTE_ENGINE = 1

GREEN = """
import json, time, torch
from torch.cuda.green_contexts import GreenContext
side = 4096
a = torch.randn(side, side, device="cuda", dtype=torch.bfloat16)
def speed():
    for _ in range(5):
        a @ a
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(50):
        a @ a
    torch.cuda.synchronize()
    return 50 * 2 * side**3 / (time.perf_counter() - begin) / 1e12
found = {"whole_tflops": speed()}
for share in (8, 16, 32, 64, 128):
    begin = time.perf_counter()
    context = GreenContext.create(num_sms=share, device_id=0)
    created = time.perf_counter()
    context.set_context()
    entered = time.perf_counter()
    found[str(share)] = {
        "create_ms": (created - begin) * 1e3, "enter_ms": (entered - created) * 1e3, "tflops": speed()
    }
    begin = time.perf_counter()
    context.pop_context()
    found[str(share)]["leave_ms"] = (time.perf_counter() - begin) * 1e3
print(json.dumps(found))
"""


def green_contexts() -> dict[str, Any]:
    """Made, entered and left by PyTorch, with the speed of a matrix product inside each."""
    ran = subprocess.run([sys.executable, "-c", GREEN], capture_output=True, text=True, timeout=180, check=False)
    if ran.returncode != 0:
        return {"error": ran.stderr.strip().splitlines()[-1:]}
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def _groups(process: Process) -> list[dict[str, int]]:
    """A channel of each group that computes, with the descriptor as this process's own."""
    found = {c["group"]: c for c in process.ask("channels") if c["engine"] == COMPUTE_ENGINE}
    return [{**channel, "fd": descriptor_of(process.popen.pid, channel["fd"])} for channel in found.values()]


def _timed(library: Library, group: dict[str, int], command: int, params: bytes) -> dict[str, Any]:
    times: list[float] = []
    status = 0
    for _ in range(ROUNDS):
        buffer = ctypes.create_string_buffer(params, len(params))
        begin = time.perf_counter_ns()
        status = library.control(group["fd"], group["client"], group["group"], command, buffer)
        times.append((time.perf_counter_ns() - begin) / 1000)
        if status:
            break
        time.sleep(0.002)
    return {"status": status_name(status), "us": percentiles(times)}


def _online_ms(online: Process) -> dict[str, float]:
    return percentiles([took for _, took in online.ask("steps", timeout=60, seconds=4.0)["steps"]])


def controls(setting: Setting, online_setting: Setting) -> dict[str, Any]:
    """Time slices and PREEMPT on a running tenant, and the neighbour's step time in milliseconds beside each slice."""
    library = Library(setting.library)
    figures: dict[str, Any] = {}
    with worker(online_setting) as online, worker(setting) as tenant:
        online.ask("prepare", kind="graph", seconds=1.0)
        figures["neighbour_alone_ms"] = _online_ms(online)
        amount = tenant.ask("prepare", kind="matmul", seconds=60.0)["amount"]
        tenant.ask("start", amount=amount)
        groups = _groups(tenant)
        for slice_us in SLICES_US:
            calls = [_timed(library, group, SET_TIMESLICE, struct.pack("<Q", slice_us)) for group in groups]
            figures[f"timeslice_{slice_us}_us"] = {"calls": calls, "neighbour_ms": _online_ms(online)}
        for group in groups:
            _timed(library, group, SET_TIMESLICE, struct.pack("<Q", DEFAULT_SLICE_US))
        # bWait 1, bManualTimeout 0, timeoutUs 0.
        figures["preempt"] = [_timed(library, group, PREEMPT, struct.pack("<BB2xI", 1, 0, 0)) for group in groups]
    return figures


@contextmanager
def _mps() -> Iterator[tuple[tuple[str, str], ...]]:
    """A control daemon of our own, with its pipes and logs in a folder of our own."""
    with tempfile.TemporaryDirectory() as folder:
        environment = (("CUDA_MPS_PIPE_DIRECTORY", folder), ("CUDA_MPS_LOG_DIRECTORY", folder))
        everything = {**os.environ, **dict(environment)}
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env=everything, check=True, timeout=30)
        try:
            yield environment
        finally:
            subprocess.run(
                ["nvidia-cuda-mps-control"], env=everything, input="quit\n", text=True, timeout=60, check=False
            )


def mps(setting: Setting) -> dict[str, Any]:
    """What the hook sees of a client of MPS, and whether stopping it stops it."""
    try:
        with _mps() as environment, worker(replace(setting, environment=environment)) as process:
            amount = process.ask("prepare", kind="iterate", seconds=4.0)["amount"]
            process.ask("start", amount=amount)
            found = process.ask("channels")
            stopped = process.ask("switch", stop=True)
            moved = process.counters.moved(0.2)
            process.ask("switch", stop=False)
            outcome = process.ask("wait", timeout=60)
            return {"channels": len(found), "stop": stopped, "counters_moved": moved, "outcome": outcome}
    except (OSError, subprocess.SubprocessError, WorkerError) as error:
        return {"error": str(error)}

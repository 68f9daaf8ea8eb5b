"""On a real GPU: whether a tenant can be stopped and its memory taken, and how fast. Prints one JSON object.

    python benchmarks/gpu/run.py --library build/librowen_nvidia.so --output results.json [PART ...]

Needs an NVIDIA GPU, `cuda-bindings` and PyTorch. It touches only processes, channels and memory of its own, and changes
no setting of the device. A part that fails is reported as such and does not end the others; results are written after
each, since a machine may be taken away.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from gpu import capture, neighbour, pages, second_choice, switching
from gpu.process import Setting
from reporting.report import machine

QUERY = "name,driver_version,memory.total,vbios_version,mig.mode.current,compute_mode,persistence_mode"
DRIVERS = ("535.", "550.", "570.", "580.", "595.")
"""Branches whose structures rm.h was compared with."""


def device() -> dict[str, str]:
    """The GPU as the driver names it. Raises `OSError` or `subprocess.SubprocessError` without one."""
    ran = subprocess.run(
        ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader", "--id=0"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return dict(zip(QUERY.split(","), (word.strip() for word in ran.stdout.split(",")), strict=True))


def versions() -> dict[str, str]:
    """What the figures depend on."""
    import cuda.bindings
    import torch

    cuda_version = str(torch.version.cuda)
    return {
        "python": sys.version.split()[0], "torch": torch.__version__, "cuda": cuda_version,
        "cuda-bindings": cuda.bindings.__version__,
    }  # fmt: skip


def parts(setting: Setting, output: Path, seed: int) -> dict[str, Callable[[], Any]]:
    """Every measurement by name, in the order of the questions."""
    online = Setting(setting.library, preload=False)
    return {
        "capture": lambda: capture.run(setting, output.parent),
        "every_kind": lambda: switching.every_kind(setting, seed),
        "every_route": lambda: switching.every_route(setting, seed),
        "without_privilege": lambda: switching.without_privilege(setting, seed),
        "long_stop": lambda: switching.long_stop(setting),
        "stopper_dies": lambda: {
            route: switching.stopper_dies(setting, route) for route in ("descriptor", "foreign")
        },
        "tenant_dies": lambda: switching.tenant_dies(setting),
        "neighbour": lambda: {kind: neighbour.run(setting, kind, online) for kind in ("matmul", "iterate")},
        "memory": lambda: pages.run(setting),
        "controls": lambda: second_choice.controls(setting, online),
        "green_contexts": second_choice.green_contexts,
        "mps": lambda: second_choice.mps(setting),
    }  # fmt: skip


def _measure(name: str, part: Callable[[], Any]) -> Any:
    begin = time.monotonic()
    try:
        found: Any = part()
    except Exception as error:
        traceback.print_exc()
        found = {"error": f"{type(error).__name__}: {error}"}
    print(f"{name}: {time.monotonic() - begin:.1f} s", file=sys.stderr, flush=True)
    return found


def main() -> int:
    """Exits 2 without a GPU, or with a driver that the layouts were not compared with."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("parts", nargs="*")
    arguments = parser.parse_args()
    try:
        found_device = device()
    except (OSError, subprocess.SubprocessError) as error:
        print(f"no GPU: {error}", file=sys.stderr)
        return 2
    if not found_device["driver_version"].startswith(DRIVERS):
        print(f"driver {found_device['driver_version']}: known are {', '.join(DRIVERS)}", file=sys.stderr)
        return 2
    every = parts(Setting(arguments.library.resolve()), arguments.output.resolve(), arguments.seed)
    unknown = set(arguments.parts) - set(every)
    if unknown:
        print(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(every)}", file=sys.stderr)
        return 2
    result: dict[str, Any] = {
        "name": "gpu", "machine": machine(), "user": os.getuid(), "device": found_device, "versions": versions(),
        "seed": arguments.seed, "parts": {},
    }  # fmt: skip
    for name in arguments.parts or every:
        result["parts"][name] = _measure(name, every[name])
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())

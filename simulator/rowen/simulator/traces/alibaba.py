"""Alibaba's GenAI cluster trace of 2026: GPU duty (percent) and GPU memory (bytes) of each container, by time.

A folder with `pod_gpu_duty_cycle_anon.csv` and `pod_gpu_memory_used_bytes_anon.csv`, unpacked. The columns `value`,
`timestamp_anon` and `container_ip` come in any order.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rowen.simulator.arrays import Floats
from rowen.simulator.traces.reading import LEAST_SPAN_SECONDS, TraceError, number, rows

DUTY = "pod_gpu_duty_cycle_anon.csv"
MEMORY = "pod_gpu_memory_used_bytes_anon.csv"
_COLUMNS = ("value", "timestamp_anon", "container_ip")
_LONGEST_STEPS = 3.0
"""A container says nothing about the time after so many steps without a sample: it counts as idle then."""


@dataclass(frozen=True, slots=True, eq=False)
class Usage:
    """What a container did with its device, sample by sample."""

    times: Floats
    """Seconds since the trace's start; ascending."""
    lengths: Floats
    """Seconds for which each sample holds."""
    duty: Floats
    """Fractions of those that the device was busy."""
    memory: Floats
    """Bytes in use."""


def read(folder: Path) -> tuple[tuple[Usage, ...], float]:
    """All containers that have duty and memory, by name, and the trace's span in seconds. Raises `TraceError`."""
    duty = _series(folder / DUTY, "value (percent)", 100.0)
    memory = _series(folder / MEMORY, "value (bytes)", 1e15)
    names = sorted(set(duty) & set(memory))
    if not names:
        raise TraceError(folder, None, f"containers that are both in {DUTY} and in {MEMORY} were expected")
    begin = min(duty[name][0][0] for name in names)
    end = max(duty[name][0][-1] for name in names)
    step = (
        float(np.median(np.diff(np.unique(np.concatenate([duty[name][0] for name in names]))))) if end > begin else 1.0
    )
    if end - begin + step < LEAST_SPAN_SECONDS:
        raise TraceError(
            folder / DUTY, None, f"samples over at least a second were expected, not {end - begin + step:g} s"
        )
    return tuple(_usage(duty[name], memory[name], begin, step) for name in names), end - begin + step


def _usage(duty: tuple[Floats, Floats], memory: tuple[Floats, Floats], begin: float, step: float) -> Usage:
    times, percent = duty
    lengths = np.minimum(np.diff(times, append=times[-1] + step), _LONGEST_STEPS * step)
    return Usage(times - begin, lengths, percent / 100.0, np.interp(times, *memory))


def _series(path: Path, name: str, most: float) -> dict[str, tuple[Floats, Floats]]:
    """Times and values by container, in order of time; of several samples at one time the last counts."""
    found: dict[str, dict[float, float]] = {}
    for line, row in _columns(path):
        time = number(path, line, "timestamp_anon", row["timestamp_anon"])
        value = number(path, line, name, row["value"], most)
        if not row["container_ip"]:
            raise TraceError(path, line, "container_ip: a name was expected; it is empty")
        found.setdefault(row["container_ip"], {})[time] = value
    return {
        container: (np.array(sorted(samples)), np.array([samples[time] for time in sorted(samples)]))
        for container, samples in found.items()
    }


def _columns(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    lines = rows(path, None)
    first = next(lines, None)
    if first is None or sorted(first[1]) != sorted(_COLUMNS):
        raise TraceError(path, 1, f"a header with the columns {','.join(_COLUMNS)} in any order was expected")
    for line, row in lines:
        if len(row) != len(_COLUMNS):
            raise TraceError(path, line, f"3 columns were expected ({','.join(first[1])}), not {len(row)}")
        yield line, dict(zip(first[1], row, strict=True))

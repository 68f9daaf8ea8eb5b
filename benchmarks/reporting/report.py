"""The object that every benchmark prints: its figures beside its baselines, with machine, versions and seed."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import Any

from reporting.bars import Bars, bar_lines, judged


@dataclass(frozen=True)
class Missing:
    """In place of a value that a run cannot give."""

    reason: str


Figures = Mapping[str, tuple[float | Missing, str]]
"""Figure name → (value, unit)."""


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def machine() -> dict[str, Any]:
    """The machine that the benchmark ran on."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _cpu_model(),
        "cpus": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def _versions(packages: Sequence[str]) -> dict[str, str]:
    found = {"python": platform.python_version()} | {package: _version(package) for package in packages}
    return found | {"rowen": _COMMIT}


def _commit() -> str:
    """Of the code that runs, with `-dirty` where files other than results differ from it, of those that git tracks."""
    try:
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)benchmarks/results")
        return _git("rev-parse", "--short", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _git(*words: str) -> str:
    command = ("git", "-C", str(Path(__file__).parent), *words)
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=10).stdout.strip()


_COMMIT = _commit()
"""As a run begins: it may take half an hour."""


def _version(package: str) -> str:
    # vLLM for CPUs is a distribution of another name.
    for name in (package, *packages_distributions().get(package, ())):
        with suppress(PackageNotFoundError):
            return version(name)
    return "absent"


def _row(value: float | Missing, unit: str) -> dict[str, Any]:
    if isinstance(value, Missing):
        return {"value": None, "unit": unit, "reason": value.reason}
    return {"value": value, "unit": unit}


def _rows(figures: Figures) -> dict[str, Any]:
    return {name: _row(value, unit) for name, (value, unit) in figures.items()}


def report(
    name: str,
    seed: int,
    figures: Figures,
    baselines: Mapping[str, Figures],
    packages: Sequence[str] = (),
    bars: Bars | None = None,
) -> dict[str, Any]:
    """Builds the object, with a verdict for each bar.

    `packages` are distributions whose versions matter to the figures.
    """
    rows = _rows(figures)
    return {
        "name": name,
        "machine": machine(),
        "versions": _versions(packages),
        "seed": seed,
        "figures": rows,
        "baselines": {strategy: _rows(others) for strategy, others in baselines.items()},
        **({"bars": judged(rows, bars)} if bars is not None else {}),
    }


def print_report(obj: Mapping[str, Any], as_json: bool) -> None:
    """Prints the object: as one line of JSON, or as a table for people. With JSON the verdicts go to stderr."""
    if as_json:
        print(json.dumps(obj))
    else:
        _print_table(obj)
    for line in bar_lines(obj):
        print(line, file=sys.stderr if as_json else sys.stdout)


def _print_table(obj: Mapping[str, Any]) -> None:
    print(f"{obj['name']} (seed {obj['seed']}) on {obj['machine']['processor']}, {obj['machine']['cpus']} CPUs")
    for title, rows in [("figures", obj["figures"]), *obj["baselines"].items()]:
        print(f"\n{title}")
        for figure, row in rows.items():
            value = f"no value: {row['reason']}" if row["value"] is None else f"{row['value']:>14.4f} {row['unit']}"
            print(f"  {figure:<36} {value}")

"""The command line of benchmarks that start servers."""

import argparse
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog
from reporting.report import print_report


def run_command(
    description: str | None,
    quick: str,
    run: Callable[[bool, int], dict[str, Any]],
    draw: Callable[[dict[str, Any], Path], None] | None = None,
    *,
    seeded: bool = True,
) -> None:
    """Runs a benchmark as its command line says, prints its object, and draws it where there is something to draw.

    `quick`: what `--quick` does. `run` is told whether it is quick, and the seed; 0 where it is not `seeded`. A
    `RuntimeError` of its is told without a traceback.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object, with raw values")
    parser.add_argument("--quick", action="store_true", help=quick)
    if seeded:
        parser.add_argument("--seed", type=int, default=0)
    if draw is not None:
        parser.add_argument("--picture", type=Path, help="PNG file that is written, too")
    arguments = parser.parse_args()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    # A run that is told to end takes its processes and cgroups with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        obj = run(arguments.quick, arguments.seed if seeded else 0)
    except RuntimeError as error:
        raise SystemExit(str(error)) from error
    if draw is not None and arguments.picture is not None:
        draw(obj, arguments.picture)
    print_report(obj, arguments.json)

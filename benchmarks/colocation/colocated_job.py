"""A worker of the product as a tenant of a benchmark: it can also stop by itself, at the end of each of its steps.

python -m colocation.colocated_job tuning|batch FLAGS
"""

import os
import runpy
import sys
import time
from pathlib import Path
from typing import Any

from colocation.flags import FLAGS_ENV, Flags, Mode

from rowen.runtime.batch import precision
from rowen.runtime.worker import Progress

_LOOK_SECONDS = 0.0005


def stop_at_steps(flags: Flags) -> None:
    """Where a tuner says how far it is, it waits while requests are in flight, in `Mode.STEP`."""
    original = Progress.report

    def report(progress: Progress, *arguments: Any) -> None:
        original(progress, *arguments)
        while flags.mode is Mode.STEP and flags.busy:
            time.sleep(_LOOK_SECONDS)

    Progress.report = report  # type: ignore[method-assign, assignment]


def stop_at_engine_steps(flags: Path) -> None:
    """The same of a batch worker, whose engine is a process of its own."""
    from rowen.runtime.batch.serving import arguments

    os.environ[FLAGS_ENV] = str(flags)
    arguments.FIXED += ("--scheduler-cls=colocation.step_scheduler.StepScheduler",)


def main() -> None:
    """Runs the worker."""
    kind, flags = sys.argv[1], Path(sys.argv[2])
    if kind == "batch":
        # As the server beside it: every CPU is fast in float32.
        precision.chosen = lambda _: precision.FLOAT32
        stop_at_engine_steps(flags)
    else:
        stop_at_steps(Flags(flags))
    runpy.run_module(f"rowen.runtime.{kind}", run_name="__main__")


if __name__ == "__main__":
    main()

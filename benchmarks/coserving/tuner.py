"""The product's tuner as a benchmark has it: it says what it has done, and stands still when it is told to.

python -m coserving.tuner REPORTS

A line of `REPORTS` is a time, monotonic, and the tokens worked through by then. Where it has a model itself it marks
its work: a unit is a layer, on the way forward or back.
"""

import os
import runpy
import sys
import time
from pathlib import Path
from typing import Any

import torch
from coserving.marks import MARKS_ENV, MarkWriter
from coserving.turns import TURNS_ENV, Turns

from rowen.runtime.worker import Progress


def main() -> None:
    """Runs the worker."""
    reports = Path(sys.argv[1]).open("a", encoding="utf-8", buffering=1)  # noqa: SIM115 - until the process ends
    turns, original = Turns(Path(os.environ[TURNS_ENV])), Progress.report

    def report(progress: Progress, *arguments: Any) -> None:
        original(progress, *arguments)
        reports.write(f"{time.monotonic()} {progress.tokens}\n")
        turns.pass_on()
        # Of the time in which it stood still nothing is to count.
        reports.write(f"{time.monotonic()} {progress.tokens}\n")

    Progress.report = report  # type: ignore[method-assign]
    if MARKS_ENV in os.environ:
        _mark_layers(MarkWriter(Path(os.environ[MARKS_ENV])))
    runpy.run_module("rowen.runtime.tuning", run_name="__main__")


def _mark_layers(marks: MarkWriter) -> None:
    def forward(module: Any, _: Any, output: Any) -> None:
        if not type(module).__name__.endswith("DecoderLayer"):
            return
        marks.worked(1)
        hidden = output[0] if isinstance(output, tuple) else output
        if hidden.requires_grad:
            # The way back has come to this layer.
            hidden.register_hook(lambda _: marks.worked(1))

    torch.nn.modules.module.register_module_forward_hook(forward)


if __name__ == "__main__":
    main()

"""The product's fine-tuning worker, outside a cluster, with a clock in its device's place."""

import os
import sys
import time

from alone.timing import BATCH_ROWS, SEQUENCE_TOKENS, Run, epochs, say_steps
from typing_extensions import override

from rowen.crds.job.fine_tune import Lora
from rowen.crds.job.worker import ExitCode, Location, ModelLocation, TuningSpec
from rowen.crds.names import JOB_SPEC_ENV
from rowen.runtime import worker
from rowen.runtime.native import NoTenant
from rowen.runtime.tuning.__main__ import tune


class _Clock(NoTenant):
    def __init__(self) -> None:
        self.ends: list[float] = []

    @override
    def progress(self, completed: int, total: int, tokens: int) -> None:
        if completed > len(self.ends):
            self.ends.append(time.monotonic())


def main() -> int:
    """Returns the worker's exit code."""
    asked, clock = Run.asked(), _Clock()
    spec = TuningSpec(
        base_model=ModelLocation(name_or_path=asked.model),
        dataset=Location(where=asked.data),
        output=Location(where=asked.output),
        lora=Lora(),
        epochs=epochs(asked.data, asked.steps),
        batch_size=BATCH_ROWS,
        sequence_length=SEQUENCE_TOKENS,
        held_out_fraction=0.0,
        checkpoint_steps=asked.checkpoint_steps,
    )
    os.environ[JOB_SPEC_ENV] = spec.model_dump_json(by_alias=True, exclude_none=True)
    worker.tenant = lambda: clock
    code = worker.run("steps", tune)
    if code == ExitCode.DONE:
        say_steps(clock.ends)
    return code


if __name__ == "__main__":
    sys.exit(main())

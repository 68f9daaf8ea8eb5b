"""The product's fine-tuning worker, outside a cluster, with a clock in its device's place."""

import os
import sys

from alone.timing import BATCH_ROWS, SEQUENCE_TOKENS, Run, epochs, say_steps
from rig.tuning_job import Steps, tuning_spec

from rowen.crds.job.worker import ExitCode
from rowen.crds.names import JOB_SPEC_ENV
from rowen.runtime import worker
from rowen.runtime.tuning.__main__ import tune


def main() -> int:
    """Returns the worker's exit code."""
    asked, ends = Run.asked(), list[float]()

    def step(completed: int, now: float, _tokens: int) -> None:
        if completed > len(ends):
            ends.append(now)

    spec = tuning_spec(
        asked.model,
        asked.data,
        asked.output,
        epochs=epochs(asked.data, asked.steps),
        batch_size=BATCH_ROWS,
        sequence_length=SEQUENCE_TOKENS,
        checkpoint_steps=asked.checkpoint_steps,
    )
    os.environ[JOB_SPEC_ENV] = spec.model_dump_json(by_alias=True, exclude_none=True)
    worker.tenant = lambda: Steps(step)
    code = worker.run("steps", tune)
    if code == ExitCode.DONE:
        say_steps(ends)
    return code


if __name__ == "__main__":
    sys.exit(main())

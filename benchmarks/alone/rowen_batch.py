"""The product's batch worker, outside a cluster: from the first row that is sent to the last one that is written."""

import json
import os
import sys
import time
from pathlib import Path

from alone.timing import Run, say
from alone.vllm_batch import CACHE_BYTES

from rowen.crds.job.worker import BatchSpec, ExitCode, Location, ModelLocation
from rowen.crds.names import JOB_SPEC_ENV
from rowen.runtime import worker
from rowen.runtime.batch import precision
from rowen.runtime.batch.__main__ import answer_all
from rowen.runtime.batch.memory import OVERHEAD_BYTES
from rowen.runtime.batch.rows import Rows
from rowen.runtime.batch.runner import BatchRunner
from rowen.runtime.batch.weights import weights_bytes

_times: list[float] = []
_run = BatchRunner.run


async def _timed(self: BatchRunner, rows: Rows) -> None:
    _times.append(time.monotonic())
    await _run(self, rows)
    _times.append(time.monotonic())


def main() -> int:
    """Returns the worker's exit code."""
    asked = Run.asked()
    model = Path(asked.model)
    spec = BatchSpec(
        model=ModelLocation(name_or_path=asked.model),
        input=Location(where=asked.data),
        output=Location(where=asked.output),
        memory_bytes=OVERHEAD_BYTES + weights_bytes(model, precision.chosen(model)) + CACHE_BYTES,
    )
    os.environ[JOB_SPEC_ENV] = spec.model_dump_json(by_alias=True, exclude_none=True)
    BatchRunner.run = _timed  # type: ignore[method-assign]
    code = worker.run("rows", answer_all)
    if code == ExitCode.DONE:
        answers = [json.loads(line)["response"]["body"] for line in Path(asked.output).read_bytes().splitlines()]
        say(sum(answer["usage"]["total_tokens"] for answer in answers), _times[1] - _times[0])
    return code


if __name__ == "__main__":
    sys.exit(main())

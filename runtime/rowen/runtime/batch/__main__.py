"""Entry point of a batch inference worker."""

import asyncio
import os
import sys
from pathlib import Path

from rowen.crds.job.worker import BatchSpec
from rowen.crds.names import ENGINE_POD_ENV, ENGINE_URL_ENV
from rowen.runtime.batch.file_output import FileOutput
from rowen.runtime.batch.output import Output
from rowen.runtime.batch.riding import job as riding
from rowen.runtime.batch.rows import Rows
from rowen.runtime.batch.runner import write_problems
from rowen.runtime.batch.store_output import StoreOutput
from rowen.runtime.failure import WorkerError
from rowen.runtime.storage.inputs import local_copy
from rowen.runtime.storage.store import is_address
from rowen.runtime.worker import Progress, attempt, read_spec, run


def answer_all(progress: Progress) -> str:
    """Runs the job of the environment. Returns a sentence with the row counts."""
    spec = read_spec(BatchSpec)
    source = local_copy(spec.input, "InputMissing")
    rows = Rows(source)
    output = _output(spec, source, rows)
    progress.report(len(output.done), len(rows))
    write_problems(rows, output)
    if len(output.done) < len(rows):
        asyncio.run(_answer_rest(spec, rows, output, progress))
    progress.report(len(rows), len(rows))
    output.close()
    failed = f", {output.failed} of them errors (see {Path((spec.errors or spec.output).where).name})"
    return f"{len(rows)} rows{failed if output.failed else ''}"


async def _answer_rest(spec: BatchSpec, rows: Rows, output: Output, progress: Progress) -> None:
    """Raises `WorkerError`, `OSError`."""
    engine = os.environ.get(ENGINE_URL_ENV)
    if engine:
        pod = os.environ.get(ENGINE_POD_ENV)
        await riding.answer_rest(engine, pod, spec.model, rows, output, progress)
        return
    # vLLM takes seconds to import: a job whose input is wrong should not wait for it.
    from rowen.runtime.batch import job

    await job.answer_rest(spec, rows, output, progress)


def _output(spec: BatchSpec, source: Path, rows: Rows) -> Output:
    """Takes the output for this attempt. Raises `WorkerError`, `OSError`."""
    addresses = {is_address(place.where) for place in (spec.output, spec.errors) if place is not None}
    if len(addresses) > 1:
        raise WorkerError("SpecInvalid", "output and errors are both on a volume, or both in object storage")
    if addresses == {True}:
        return StoreOutput(rows, spec.output, spec.errors, attempt())
    errors = Path(spec.errors.where) if spec.errors else None
    return FileOutput(source, rows, Path(spec.output.where), errors, attempt())


if __name__ == "__main__":
    sys.exit(run("rows", answer_all))

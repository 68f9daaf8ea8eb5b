"""Entry point of a batch inference worker."""

import sys
import time
from pathlib import Path

from rowen.crds.worker import BatchSpec
from rowen.runtime.batch.output import Output, check_output, owner_file
from rowen.runtime.batch.requests import Request, read_requests
from rowen.runtime.batch.runner import BatchRunner, write_problems
from rowen.runtime.device_memory import worker_part
from rowen.runtime.fence import Fence
from rowen.runtime.files import make_folder
from rowen.runtime.model_source import model_folder
from rowen.runtime.worker import Progress, attempt, read_spec, run


def answer_all(progress: Progress) -> str:
    """Runs the job of the environment. Returns a sentence with the row counts."""
    spec = read_spec(BatchSpec)
    requests = read_requests(Path(spec.input.where))
    path = Path(spec.output.where)
    # Nothing is made or changed before this: the path may be a mistake.
    written = check_output(path, Path(spec.input.where), requests)
    fence = Fence(owner_file(make_folder(path.parent) / path.name), attempt())
    output = Output(path, fence, requests, written)
    progress.report(len(output.done), len(requests))
    write_problems(requests, output)
    if len(output.done) < len(requests):
        _answer_rest(spec, requests, output, progress)
    progress.report(len(requests), len(requests))
    output.close()
    fence.release()
    failed = f", {output.failed} of them errors (see {path.name})" if output.failed else ""
    return f"{len(requests)} rows{failed}"


def _answer_rest(spec: BatchSpec, requests: list[Request], output: Output, progress: Progress) -> None:
    model = model_folder(spec.model)
    # vLLM takes seconds to import: a job whose input is wrong should not wait for it.
    from rowen.runtime.batch.engine import VllmEngine

    engine = VllmEngine(model, spec.memory_bytes, worker_part())
    BatchRunner(engine, output, progress, spec.model.name_or_path, int(time.time())).run(requests)


if __name__ == "__main__":
    sys.exit(run("rows", answer_all))

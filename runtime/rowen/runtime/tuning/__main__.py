"""Entry point of a fine-tuning worker."""

import os
import sys
from contextlib import suppress
from pathlib import Path

from rowen.crds.job.worker import ExitCode, Location, TuningSpec
from rowen.runtime.coserve.ride_link import ride_link
from rowen.runtime.device_memory import worker_part
from rowen.runtime.failure import WorkerError
from rowen.runtime.model_source import model_folder
from rowen.runtime.storage.inputs import local_copy
from rowen.runtime.storage.store import is_address
from rowen.runtime.tuning.data import source
from rowen.runtime.tuning.results.folder import FolderResults
from rowen.runtime.tuning.results.results import Results
from rowen.runtime.tuning.results.store import StoreResults
from rowen.runtime.worker import Progress, attempt, read_spec, run


def tune(progress: Progress) -> str:
    """Runs the job of the environment. Returns a sentence with the losses."""
    spec = read_spec(TuningSpec)
    model = model_folder(spec.base_model)
    dataset = local_copy(spec.dataset, "DatasetMissing", source.PATTERNS)
    source.files(dataset)
    # Nothing is made or changed before this: the place may be a mistake.
    results = _results(spec.output, model)
    # A thread that waits for the others must not spin for long on a CPU that these or other tenants could use. Waits
    # within a step are shorter than this, some half a millisecond: to sleep through them costs a quarter of the speed.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    import torch

    from rowen.runtime.tuning.tuner import Tuner

    # The gate library keeps the process on its devices' CPUs. Their number decides the order of a float32 sum, the
    # machine's load must not.
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.use_deterministic_algorithms(True)
    try:
        link = ride_link()
        part = None if link else worker_part()
        metrics = Tuner(spec, model, dataset, results, progress, part, link).run()
    except WorkerError as error:
        if error.code is ExitCode.USER_ERROR:
            # The user is to hear of their error, whatever becomes of the output.
            with suppress(OSError, WorkerError):
                results.give_up()
        raise
    return metrics.sentence()


def _results(output: Location, model: Path) -> Results:
    """Takes the output for this attempt. Raises `WorkerError`, `OSError`."""
    if is_address(output.where):
        return StoreResults(output, attempt())
    return FolderResults(Path(output.where), model, attempt())


if __name__ == "__main__":
    sys.exit(run("steps", tune))

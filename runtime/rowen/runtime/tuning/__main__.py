"""Entry point of a fine-tuning worker."""

import os
import sys
from pathlib import Path

from rowen.crds.worker import ExitCode, TuningSpec
from rowen.runtime.device_memory import worker_part
from rowen.runtime.failure import WorkerError
from rowen.runtime.fence import Fence
from rowen.runtime.files import make_folder
from rowen.runtime.model_source import model_folder
from rowen.runtime.tuning.data import source
from rowen.runtime.tuning.output import OWNER_FILE, REPLACED_FILES, check_output
from rowen.runtime.worker import Progress, attempt, read_spec, run


def tune(progress: Progress) -> str:
    """Runs the job of the environment. Returns a sentence with the losses."""
    spec = read_spec(TuningSpec)
    model = model_folder(spec.base_model)
    source.files(Path(spec.dataset.where))
    folder = Path(spec.output.where)
    # Nothing is made or changed before this: the path may be a mistake.
    check_output(folder, model)
    fence = Fence(make_folder(folder) / OWNER_FILE, attempt(), [folder / name for name in REPLACED_FILES])
    # A thread that waits for the others must not spin on a CPU that these or other tenants could use.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import torch

    from rowen.runtime.tuning.tuner import Tuner

    # The gate library keeps the process on its devices' CPUs. Their number decides the order of a float32 sum, the
    # machine's load must not.
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.use_deterministic_algorithms(True)
    try:
        metrics = Tuner(spec, model, fence, progress, worker_part()).run()
    except WorkerError as error:
        # Nothing of Rowen's is there: whatever the user puts there later is not to be taken for it.
        if error.code is ExitCode.USER_ERROR and not any((folder / name).exists() for name in REPLACED_FILES):
            fence.release()
        raise
    fence.release()
    return metrics.sentence()


if __name__ == "__main__":
    sys.exit(run("steps", tune))

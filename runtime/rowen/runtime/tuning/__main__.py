"""Entry point of a fine-tuning worker."""

import os
import sys
from pathlib import Path

from rowen.crds.worker import TuningSpec
from rowen.runtime.fence import Fence
from rowen.runtime.model_source import check_present
from rowen.runtime.worker import Progress, WorkerFailure, attempt, failure_of, read_spec, run

OWNER_FILE = ".rowen-owner"


def tune(progress: Progress) -> str:
    """Runs the job of the environment. Returns a sentence with the losses."""
    spec = read_spec(TuningSpec)
    check_present(spec.base_model)
    if not Path(spec.dataset_path).is_file():
        raise WorkerFailure("DatasetMissing", f"no dataset file {spec.dataset_path}")
    fence = Fence(_make_folder(Path(spec.output_path)) / OWNER_FILE, attempt())
    # One thread is one device, and the order of a float32 sum must not depend on the machine's load.
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    from rowen.runtime.tuning.tuner import Tuner

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    metrics = Tuner(spec, fence, progress).run()
    fence.release()
    return metrics.sentence()


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise WorkerFailure("OutputUnwritable", f"{folder} is not a folder") from error
    except OSError as error:
        raise failure_of(error) from error
    return folder


if __name__ == "__main__":
    sys.exit(run("steps", tune))

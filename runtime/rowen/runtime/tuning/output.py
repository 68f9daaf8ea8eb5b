"""The output folder of a fine-tuning job: which files it receives, and whether those there may be replaced."""

from pathlib import Path

from rowen.runtime.failure import WorkerError
from rowen.runtime.files import has_file
from rowen.runtime.tuning.header import read_header
from rowen.runtime.tuning.metrics import METRICS_FILE, is_metrics

OWNER_FILE = ".rowen-owner"
ADAPTER_FILE = "adapter_model.safetensors"
ADAPTER_CONFIG_FILE = "adapter_config.json"
CHECKPOINT_FILE = "checkpoint.safetensors"
CHECKPOINT_KEY = "rowen"
"""Under it a checkpoint's metadata holds the state that is no tensor."""


def check_output(folder: Path, model: Path) -> None:
    """Raises `WorkerError` or `OSError` when no job on that model may write there. Changes nothing.

    A result of Rowen may be replaced. Adapter files bear no mark: they are Rowen's where metrics or a checkpoint of
    Rowen's stand beside them, and from a job's first commit on one of these always does.
    """
    if not folder.is_dir():
        return
    if folder.samefile(model):
        raise WorkerError("OutputUnwritable", f"{folder} is the base model's folder; name another output folder")
    marked = False
    for name, is_ours in ((METRICS_FILE, is_metrics), (CHECKPOINT_FILE, _is_checkpoint)):
        if has_file(folder / name):
            if not is_ours(folder / name):
                raise _foreign(folder / name)
            marked = True
    for name in (ADAPTER_CONFIG_FILE, ADAPTER_FILE):
        if has_file(folder / name) and not marked:
            raise _foreign(folder / name)


def _is_checkpoint(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            header, _ = read_header(stream)
    except ValueError:
        return False
    metadata = header.get("__metadata__")
    return isinstance(metadata, dict) and CHECKPOINT_KEY in metadata


def _foreign(path: Path) -> WorkerError:
    message = f"{path} was not written by a fine-tuning job of Rowen; name another output folder"
    return WorkerError("OutputUnwritable", message)

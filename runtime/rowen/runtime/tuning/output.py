"""The output folder of a fine-tuning job: which files it receives, and whether those there may be replaced."""

from pathlib import Path

from rowen.runtime.failure import WorkerError
from rowen.runtime.fence import has_owner
from rowen.runtime.files import has_file
from rowen.runtime.tensor_header import read_header
from rowen.runtime.tuning.metrics import METRICS_FILE, is_metrics

OWNER_FILE = ".rowen-owner"
ADAPTER_FILE = "adapter_model.safetensors"
ADAPTER_CONFIG_FILE = "adapter_config.json"
CHECKPOINT_FILE = "checkpoint.safetensors"
REPLACED_FILES = (ADAPTER_FILE, ADAPTER_CONFIG_FILE, CHECKPOINT_FILE, METRICS_FILE)
METADATA_KEY = "rowen"
"""Marks the files of tensors. A checkpoint's metadata holds the state that is no tensor under it, an adapter's the
digest of its job."""


def check_output(folder: Path, model: Path) -> None:
    """Raises `WorkerError` or `OSError` when no job on that model may write there. Changes nothing.

    What a job of Rowen wrote may be replaced, whoever removed a part of it. Metrics, checkpoints and an adapter's
    weights tell by their content that they are Rowen's. An adapter's configuration does not, nor do a damaged file and
    the weights of a former version: they are Rowen's where something that tells stands beside them. From an attempt's
    first write to the end of the job this is the owner file.
    """
    if not folder.is_dir():
        return
    if folder.samefile(model):
        raise WorkerError("OutputUnwritable", f"{folder} is the base model's folder; name another output folder")
    check_files(folder, str(folder), owned=has_owner(folder / OWNER_FILE))


def check_files(folder: Path, shown: str, *, owned: bool) -> None:
    """As `check_output`, of the files in a folder that people know as `shown`; `owned` by an attempt of Rowen's."""
    ours = {name: is_ours(folder / name) for name, is_ours in _TELLING.items() if has_file(folder / name)}
    for name in (METRICS_FILE, CHECKPOINT_FILE):
        is_ours = ours.get(name, True)
        if is_ours is False or (is_ours is None and not owned):
            raise _unknown(f"{shown}/{name}")
    for name in (ADAPTER_CONFIG_FILE, ADAPTER_FILE):
        if has_file(folder / name) and not (owned or any(ours.values())):
            raise _unknown(f"{shown}/{name}")


def _is_marked(path: Path) -> bool | None:
    """Whether a file of tensors is Rowen's; None when it cannot be read at all."""
    try:
        with path.open("rb") as stream:
            header, _ = read_header(stream)
    except ValueError:
        return None
    metadata = header.get("__metadata__")
    return isinstance(metadata, dict) and METADATA_KEY in metadata


_TELLING = {METRICS_FILE: is_metrics, CHECKPOINT_FILE: _is_marked, ADAPTER_FILE: _is_marked}


def _unknown(path: str) -> WorkerError:
    message = f"{path} is not known to be a result of this job; move it away, or name another output folder"
    return WorkerError("OutputUnwritable", message)

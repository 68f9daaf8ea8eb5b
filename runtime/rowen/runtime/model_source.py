"""Finding the model of a job before anything heavy is imported."""

from pathlib import Path

from rowen.crds.worker import ModelLocation
from rowen.runtime.worker import WorkerFailure


def check_present(model: ModelLocation) -> None:
    """Raises `WorkerFailure` when the model is a folder that holds no model; a hub model is checked on download."""
    folder = Path(model.name_or_path)
    if not folder.is_absolute():
        return
    if not folder.is_dir():
        raise WorkerFailure("ModelMissing", f"no model folder {folder}")
    if not (folder / "config.json").is_file():
        raise WorkerFailure("ModelMissing", f"{folder} holds no config.json")

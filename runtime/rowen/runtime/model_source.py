"""Finding the model of a job before anything heavy is imported."""

from pathlib import Path

from rowen.crds.worker import ExitCode, ModelLocation
from rowen.runtime.failure import WorkerError, reading

_FILES = ["*.json", "*.safetensors", "tokenizer.model", "*.txt", "*.jinja"]


def model_folder(model: ModelLocation) -> Path:
    """The model's folder; a hub model is downloaded first. Raises `WorkerError`."""
    folder = Path(model.name_or_path)
    if not folder.is_absolute():
        folder = _download(model)
    with reading("ModelMissing", folder):
        if not folder.is_dir():
            raise WorkerError("ModelMissing", f"no model folder {folder}")
        if not (folder / "config.json").is_file():
            raise WorkerError("ModelMissing", f"{folder} holds no config.json")
    return folder


def _download(model: ModelLocation) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    name = model.name_or_path + (f" at {model.revision}" if model.revision else "")
    try:
        return Path(snapshot_download(model.name_or_path, revision=model.revision, allow_patterns=_FILES))
    except (RepositoryNotFoundError, RevisionNotFoundError, HFValidationError) as error:
        raise WorkerError("ModelMissing", f"the hub has no {name}: {error}") from error
    except Exception as error:
        raise WorkerError("ModelMissing", f"{name} cannot be downloaded: {error}", ExitCode.RETRY) from error

"""Finding the model of a job before anything heavy is imported."""

from pathlib import Path

from rowen.crds.job.worker import ExitCode, Location, ModelLocation
from rowen.runtime.failure import WorkerError, reading
from rowen.runtime.storage.credentials import hub_token
from rowen.runtime.storage.faults import Fault, fault_of
from rowen.runtime.storage.inputs import local_copy
from rowen.runtime.storage.store import is_address

_FILES = ("*.json", "*.safetensors", "tokenizer.model", "*.txt", "*.jinja")


def model_folder(model: ModelLocation, within: Path | None = None, files: tuple[str, ...] = _FILES) -> Path:
    """The model's folder; of one in object storage or on the hub these files are downloaded. Raises `WorkerError`.

    What comes out of object storage is copied as `local_copy` does.
    """
    folder = _folder(model, within, files)
    with reading("ModelMissing", folder):
        if not folder.is_dir():
            raise WorkerError("ModelMissing", f"no model folder {folder}")
        if not (folder / "config.json").is_file():
            raise WorkerError("ModelMissing", f"{folder} holds no config.json")
    return folder


def _folder(model: ModelLocation, within: Path | None, files: tuple[str, ...]) -> Path:
    if is_address(model.name_or_path):
        location = Location(where=model.name_or_path, secret_name=model.secret_name)
        return local_copy(location, "ModelMissing", files, within)
    folder = Path(model.name_or_path)
    return folder if folder.is_absolute() else _download(model, files)


def _download(model: ModelLocation, files: tuple[str, ...]) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    name = model.name_or_path + (f" at {model.revision}" if model.revision else "")
    token = hub_token(model.secret_name)
    try:
        folder = snapshot_download(model.name_or_path, revision=model.revision, token=token, allow_patterns=[*files])
    except HFValidationError as error:
        raise WorkerError("ModelMissing", f"the hub has no {name}: {error}") from error
    except Exception as error:
        fault = fault_of(error)
        if fault is Fault.MISSING:
            raise WorkerError("ModelMissing", f"the hub has no {name}: {error}") from error
        if fault is Fault.DENIED:
            whose = f" with Secret {model.secret_name}" if model.secret_name else ": set secretName"
            raise WorkerError("ModelMissing", f"the hub refuses {name}{whose}: {error}") from error
        raise WorkerError("ModelMissing", f"{name} cannot be downloaded: {error}", ExitCode.RETRY) from error
    return Path(folder)

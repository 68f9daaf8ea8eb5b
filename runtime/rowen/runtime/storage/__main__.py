"""Copies a model out of object storage into a folder: `python -m rowen.runtime.storage ADDRESS FOLDER`."""

import argparse
import shutil
import sys
from pathlib import Path

from rowen.crds.job.worker import ExitCode, ModelLocation
from rowen.runtime.failure import WorkerError, failure_of
from rowen.runtime.model_source import model_folder


def main() -> int:
    """Makes `FOLDER/<last part of the address>`, wholly or not at all. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Copies a model to this machine.")
    parser.add_argument("address", help="s3:// or gs:// address of the model's folder")
    parser.add_argument("folder", type=Path, help="where the model's folder is made")
    parser.add_argument("--secret-name", help="Secret with the credentials for the address")
    arguments = parser.parse_args()
    try:
        _copy(ModelLocation(name_or_path=arguments.address, secret_name=arguments.secret_name), arguments.folder)
    except WorkerError as error:
        return _failed(error)
    except OSError as error:
        return _failed(failure_of(error))
    return int(ExitCode.DONE)


def _copy(model: ModelLocation, folder: Path) -> None:
    copy = folder / model.name_or_path.rstrip("/").rpartition("/")[2]
    if copy.exists():
        # The kubelet may run an init container again.
        return
    # What a kill has left of a model would stay as long as the pod does.
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        source = model_folder(model, part)
        folder.mkdir(exist_ok=True)
        source.rename(copy)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _failed(error: WorkerError) -> int:
    # The kubelet tells the log's last lines as the container's message.
    sys.stderr.write(f"{error.reason}: {error.message}\n")
    return int(error.code)


if __name__ == "__main__":
    sys.exit(main())

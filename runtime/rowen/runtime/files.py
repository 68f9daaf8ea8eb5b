"""Files that are whole or absent after a crash."""

import os
from pathlib import Path

from rowen.runtime.failure import WorkerError, failure_of


def make_folder(folder: Path) -> Path:
    """Makes the output folder. Raises `WorkerError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise WorkerError("OutputUnwritable", f"{folder} is not a folder") from error
    except OSError as error:
        raise failure_of(error) from error
    return folder


def write_atomically(path: Path, data: bytes) -> None:
    """Replaces the file: after a crash it holds the old bytes or the new ones. Raises `OSError`."""
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes renames and removals in the folder last through a crash."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

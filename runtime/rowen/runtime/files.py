"""Files that are whole or absent after a crash."""

import hashlib
import os
import re
import stat
import uuid
from collections.abc import Iterable
from pathlib import Path

from rowen.crds.job.worker import ExitCode
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


def has_file(path: Path) -> bool:
    """Whether a regular file is there. Raises `WorkerError` for a link, a folder or a device, and `OSError`."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(mode):
        raise WorkerError("OutputUnwritable", f"{path} is not a regular file; name another output")
    return True


def write_atomically(path: Path, data: bytes) -> None:
    """Replaces the file: after a crash it holds the old bytes or the new ones.

    Raises `OSError`, and `WorkerError` when another attempt has taken over meanwhile.
    """
    # A name that nobody else has, neither the user nor another attempt at the same file.
    part = path.with_name(f"{_part_prefix(path)}{uuid.uuid4().hex}.part")
    try:
        with part.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        _rename(part, path)
    finally:
        part.unlink(missing_ok=True)
    sync_folder(path.parent)


def remove_parts(paths: Iterable[Path]) -> None:
    """Removes what killed attempts left of the files. A living attempt at one of them cannot commit what it writes."""
    for path in paths:
        ours = re.compile(re.escape(_part_prefix(path)) + r"[0-9a-f]{32}\.part")
        for entry in path.parent.iterdir():
            if ours.fullmatch(entry.name):
                entry.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Makes renames and removals in the folder last through a crash."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _part_prefix(path: Path) -> str:
    # As long for any name: a file's name may take all the room that there is.
    return f".rowen-{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]}-"


def _rename(part: Path, path: Path) -> None:
    try:
        part.replace(path)
    except FileNotFoundError as error:
        if not path.parent.is_dir():
            raise
        message = f"another attempt has taken over {path} while it was written"
        raise WorkerError("Superseded", message, ExitCode.RETRY) from error

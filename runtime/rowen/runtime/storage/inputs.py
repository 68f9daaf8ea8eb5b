"""What a job reads, as local files."""

from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from rowen.crds.job.worker import Location
from rowen.runtime.failure import WorkerError
from rowen.runtime.storage.scratch import scratch_folder
from rowen.runtime.storage.store import Store, is_address


def local_copy(location: Location, reason: str, patterns: tuple[str, ...] = ("*",), within: Path | None = None) -> Path:
    """The file or folder of a location; one at an address is copied first, a folder with the files that match.

    The copy is this process's alone and goes when it ends; its name is that of the original. It lies in a new folder
    `within` another one, by default that for temporary files. Raises `WorkerError`, with `reason` for what is the
    user's.
    """
    if not is_address(location.where):
        return Path(location.where)
    store = Store(location, reason)
    copy = scratch_folder(within) / store.where.rpartition("/")[2]
    if not location.where.endswith("/") and store.size() is not None:
        store.download("", copy)
        return copy
    names = [name for name in store.sizes() if not name.endswith("/")]
    if not names:
        raise WorkerError(reason, f"{store.address()} is not there: neither an object nor a folder of objects")
    wanted = [name for name in sorted(names) if any(fnmatch(name, pattern) for pattern in patterns)]
    _check_names(wanted, store, reason)
    for name in wanted:
        store.download(name, copy / name)
    copy.mkdir(exist_ok=True)
    return copy


def _check_names(names: list[str], store: Store, reason: str) -> None:
    """Raises `WorkerError` for names of objects that no folder can hold, and for those that lead out of it."""
    folders = {str(folder) for name in names for folder in PurePosixPath(name).parents}
    for name in names:
        if ".." in name.split("/") or "//" in name or name.startswith("/"):
            raise WorkerError(reason, f"{store.address(name)}: no file can have this name")
        if name in folders:
            raise WorkerError(reason, f"{store.address(name)} is both an object and a folder of objects")

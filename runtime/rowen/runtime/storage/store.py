"""One address in object storage or on the hub, with its own credentials: whole objects, retried, with clear errors."""

import time
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import structlog

from rowen.crds.job.worker import ExitCode, Location
from rowen.runtime.failure import WorkerError
from rowen.runtime.storage.credentials import options
from rowen.runtime.storage.faults import Fault, fault_of

log = structlog.get_logger()

_PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0)
"""After failures that may pass. Tries are counted, and not time: a worker may stand still in the middle of one."""
_CHUNK_BYTES = 16 * 2**20
"""Of large objects, several at once: they take memory of the job's."""
_AT_ONCE = 2
_LIBRARY_OPTIONS: dict[str, dict[str, Any]] = {
    "s3": {
        "default_block_size": _CHUNK_BYTES,
        "max_concurrency": _AT_ONCE,
        "config_kwargs": {
            "connect_timeout": 10,
            "read_timeout": 60,
            "retries": {"mode": "standard", "total_max_attempts": 2},
        },
    },
    "gs": {"block_size": _CHUNK_BYTES},
    "hf": {},
}
_Answer = TypeVar("_Answer")


def is_address(where: str) -> bool:
    """Whether a location is an address, and no path in the pod."""
    return "://" in where


class Store:
    """The object at an address, and those below it. Names are relative to the address; "" is the object itself.

    Raises `WorkerError` with the reason that the caller gives for what is the user's, and `Failed` for what may pass.
    """

    def __init__(self, location: Location, reason: str) -> None:
        import fsspec

        self.where = location.where.rstrip("/")
        self._secret = location.secret_name
        self._reason = reason
        protocol, _, self._root = self.where.partition("://")
        named = {**_LIBRARY_OPTIONS[protocol], **options(location)}
        try:
            # An instance of the cache would be another location's, with its credentials; listings go stale.
            self._files = fsspec.filesystem(protocol, skip_instance_cache=True, use_listings_cache=False, **named)
        except Exception as error:
            if self._secret is None:
                raise self._failure("", fault_of(error), error) from error
            message = f"Secret {self._secret} cannot be used for {protocol}://: {type(error).__name__}: {_words(error)}"
            raise WorkerError("SpecInvalid", message) from error

    def address(self, name: str = "") -> str:
        """For people."""
        return f"{self.where}/{name}" if name else self.where

    def sizes(self, below: str = "") -> dict[str, int]:
        """Bytes of each object whose name begins with `below/`, or of all below the address; "" is never among them."""
        folder = self._path(below)
        found = self._tried(below, lambda: self._files.find(folder, detail=True), missing=dict)
        prefix = f"{folder}/"
        inner = {path.removeprefix(prefix): entry for path, entry in found.items() if path.startswith(prefix)}
        return {self._join(below, name): int(entry["size"]) for name, entry in inner.items() if name}

    def size(self, name: str = "") -> int | None:
        """Bytes of an object; None when there is none."""
        entry = self._entry(name)
        return None if entry is None else int(entry["size"])

    def read(self, name: str = "", longest_bytes: int | None = None) -> bytes | None:
        """The content of an object, or how it begins; None when there is none."""
        if longest_bytes is not None and not (size := self.size(name)):
            # Servers refuse a range of nothing.
            return None if size is None else b""
        path = self._path(name)
        data: bytes | None = self._tried(name, lambda: self._files.cat_file(path, end=longest_bytes), missing=_none)
        return data

    def create(self, name: str, data: bytes) -> bool:
        """Writes an object where there is none, in one piece. False when another one is there."""
        # A try whose answer was lost may have written it.
        return self._is_created(
            name, lambda path: self._files.pipe_file(path, data, mode="create", chunksize=_CHUNK_BYTES)
        ) or (self.read(name) == data)

    def create_from(self, file: Path, name: str = "") -> bool:
        """As `create`, with the content of a local file."""
        return self._is_created(
            name, lambda path: self._files.put_file(str(file), path, mode="create", chunksize=_CHUNK_BYTES)
        ) or (self.size(name) == file.stat().st_size and self._same(file, name))

    def put(self, name: str, data: bytes) -> None:
        """Replaces an object, in one piece."""
        path = self._path(name)
        self._tried(name, lambda: self._files.pipe_file(path, data, chunksize=_CHUNK_BYTES))

    def remove(self, names: Iterable[str]) -> None:
        """Removes objects, in order; those that are not there are passed over."""
        for name in names:
            path = self._path(name)
            self._tried(name, lambda path=path: self._files.rm_file(path), missing=_none)  # type: ignore[misc]

    def download(self, name: str, file: Path) -> None:
        """Copies one state of an object into a new local file."""

        def copied() -> bool:
            before = self._files.info(path)
            self._files.get_file(path, str(file))
            return bool(before == self._files.info(path) and file.stat().st_size == before["size"])

        path = self._path(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        if not self._tried(name, copied):
            message = f"{self.address(name)} changed while it was read"
            raise WorkerError("Failed", message, ExitCode.RETRY)

    def _is_created(self, name: str, write: Callable[[str], object]) -> bool:
        """Whether `write` has made the object; False when one is there."""
        tries = count()

        def written() -> None:
            # A server that refuses a large object may close the connection while it is still sent.
            if next(tries) and self._is_there(path):
                raise FileExistsError(path)
            write(path)

        path = self._path(name)
        try:
            self._tried(name, written)
        except FileExistsError:
            return False
        return True

    def _is_there(self, path: str) -> bool:
        try:
            return bool(self._files.info(path)["type"] == "file")
        except FileNotFoundError:
            return False

    def _same(self, file: Path, name: str) -> bool:
        with file.open("rb") as local, self._files.open(self._path(name), "rb") as remote:
            while data := local.read(_CHUNK_BYTES):
                if remote.read(len(data)) != data:
                    return False
        return True

    def _entry(self, name: str) -> dict[str, Any] | None:
        path = self._path(name)
        entry: dict[str, Any] | None = self._tried(name, lambda: self._files.info(path), missing=_none)
        return entry if entry is not None and entry["type"] == "file" else None

    def _path(self, name: str) -> str:
        return self._join(self._root, name)

    @staticmethod
    def _join(folder: str, name: str) -> str:
        return f"{folder}/{name}" if folder and name else folder or name

    def _tried(self, name: str, call: Callable[[], _Answer], missing: Callable[[], _Answer] | None = None) -> _Answer:
        """What the call gives, tried again after what may pass; `missing` where there is nothing.

        Raises `FileExistsError`, `WorkerError`.
        """
        for pause in (*_PAUSES_SECONDS, None):
            try:
                return call()
            except Exception as error:
                fault = fault_of(error)
                if fault is Fault.MISSING and missing is not None:
                    return missing()
                if fault is Fault.EXISTS:
                    raise FileExistsError(self.address(name)) from error
                if fault is not Fault.PASSING or pause is None:
                    raise self._failure(name, fault, error) from error
                log.warning("storage is asked again", address=self.address(name), error=_words(error))
            time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _failure(self, name: str, fault: Fault, error: Exception) -> WorkerError:
        address = self.address(name)
        if fault is Fault.MISSING:
            return WorkerError(self._reason, f"{address} is not there: {_words(error)}")
        if fault in (Fault.DENIED, Fault.EXPIRED):
            whose = f"Secret {self._secret}" if self._secret else "the pod's own identity (no secretName is set)"
            # Another attempt reads the Secret anew.
            code = ExitCode.RETRY if fault is Fault.EXPIRED else ExitCode.USER_ERROR
            return WorkerError(self._reason, f"{address}: access with {whose} is refused: {_words(error)}", code)
        if fault is Fault.ADDRESS:
            return WorkerError(self._reason, f"{address} cannot be used: {_words(error)}")
        if fault is Fault.DISK:
            return WorkerError("DiskFull", f"no space left for {address}: {_words(error)}", ExitCode.RETRY)
        return WorkerError("Failed", f"{address} does not answer: {_words(error)}", ExitCode.RETRY)


def _none() -> None:
    return None


def _words(error: Exception) -> str:
    """The first line, since servers send pages."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:500]

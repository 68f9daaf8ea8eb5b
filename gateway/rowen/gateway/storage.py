"""Objects in object storage, by fsspec: what blocks is a plain function, for a thread."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import fsspec
import structlog

log = structlog.get_logger()

_BLOCK_BYTES = 8 * 2**20
_LIBRARY_OPTIONS: dict[str, dict[str, Any]] = {
    "s3": {"config_kwargs": {"connect_timeout": 5, "read_timeout": 60, "retries": {"max_attempts": 3}}},
    "gs": {},
}
SERVICE_ACCOUNT_KEY = "service-account.json"
"""Key of a Secret for `gs://`: a Google service account's JSON."""
_KEYS = {
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_REGION"),
    "gs": (SERVICE_ACCOUNT_KEY,),
}


class StorageError(Exception):
    """The storage does not do what it is asked; the log says why."""


@dataclass(frozen=True)
class Stored:
    """An object."""

    path: str
    """Below the storage's root."""
    bytes: int
    modified: int
    """Unix seconds."""


class Storage:
    """The objects under one address. Everything raises `StorageError`."""

    def __init__(self, filesystem: Any, uri: str) -> None:
        self._fs = filesystem
        self.uri = uri.rstrip("/")
        """Its root."""
        self._root = str(filesystem._strip_protocol(self.uri))

    def put(self, path: str, source: IO[bytes]) -> None:
        """Stores all of the source; the object is there whole, or not at all."""
        with _told(path), self._fs.open(self._full(path), "wb", block_size=_BLOCK_BYTES, autocommit=False) as target:
            shutil.copyfileobj(source, target, _BLOCK_BYTES)
            target.close()
            target.commit()

    def find(self, prefix: str) -> list[Stored]:
        """All objects below a prefix, a folder's path."""
        with _told(prefix):
            found = self._fs.find(self._full(prefix), detail=True)
        return [self._stored(info) for info in found.values()]

    def look(self, path: str) -> Stored | None:
        """An object; None where there is none."""
        with _told(path):
            try:
                return self._stored(self._fs.info(self._full(path)))
            except FileNotFoundError:
                return None

    def blocks(self, path: str) -> Iterator[bytes]:
        """An object's content, piece by piece."""
        with _told(path):
            source = self._fs.open(self._full(path), "rb", block_size=_BLOCK_BYTES, cache_type="none")
        with source:
            while True:
                with _told(path):
                    block = source.read(_BLOCK_BYTES)
                if not block:
                    return
                yield block

    def remove(self, prefix: str) -> None:
        """Removes all objects below a prefix; where there are none it is done."""
        with _told(prefix), suppress(FileNotFoundError):
            self._fs.rm(self._full(prefix), recursive=True)

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _stored(self, info: dict[str, Any]) -> Stored:
        path = str(info["name"]).removeprefix(f"{self._root}/")
        return Stored(path, int(info["size"] or 0), _seconds(info.get("LastModified") or info.get("mtime")))


def open_storage(uri: str, secret_folder: Path | None) -> Storage:
    """The storage at an address, with the credentials in a folder, a file for each key, or those of the pod.

    Raises `OSError` and `ValueError` for a folder without credentials that can be read.
    """
    protocol = uri.partition("://")[0]
    options = {**_LIBRARY_OPTIONS[protocol], **(_credentials(protocol, secret_folder) if secret_folder else {})}
    # Others write there, too: no listing may be remembered.
    return Storage(fsspec.filesystem(protocol, use_listings_cache=False, **options), uri)


def _credentials(protocol: str, folder: Path) -> dict[str, Any]:
    known = _KEYS[protocol]
    secret = {key: (folder / key).read_text().strip() for key in known if (folder / key).exists()}
    if not secret:
        raise ValueError(f"{folder} has no key for {protocol}:// (expected one of {', '.join(known)})")
    if protocol == "gs":
        return {"token": str(folder / SERVICE_ACCOUNT_KEY)}
    client = {"endpoint_url": secret.get("AWS_ENDPOINT_URL"), "region_name": secret.get("AWS_REGION")}
    return {
        "key": secret.get("AWS_ACCESS_KEY_ID"),
        "secret": secret.get("AWS_SECRET_ACCESS_KEY"),
        "token": secret.get("AWS_SESSION_TOKEN"),
        "client_kwargs": {name: value for name, value in client.items() if value},
    }


def _seconds(time: datetime | str | float | None) -> int:
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    return int(time.timestamp()) if isinstance(time, datetime) else int(time or 0)


@contextmanager
def _told(path: str) -> Iterator[None]:
    """The libraries raise errors of a dozen kinds, of their own and of the HTTP below."""
    try:
        yield
    except Exception as error:
        log.warning("the storage fails", path=path, error=type(error).__name__, detail=str(error)[:500])
        raise StorageError(path) from error

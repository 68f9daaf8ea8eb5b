"""A namespace's files: uploads, and what its batches write.

A file is one object, `<namespace>/files/<id>/<name>`, and all that is told of it is in its path and what the storage
says. So an upload is there whole or not at all, and nothing has to be kept beside it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Any

from rowen.gateway.ids import Role, file_id, made_at, read_file, result_name
from rowen.gateway.partial import partial_results
from rowen.gateway.storage import Storage, Stored

_UNUSUAL = re.compile(r"[^A-Za-z0-9_.-]")
_LONGEST_NAME = 200
"""What an address of an OfflineJob has room for."""


@dataclass(frozen=True)
class File:
    """A file."""

    id: str
    name: str
    stored: Stored
    is_partial: bool = False
    """Whether it is what a batch has written so far, and no object yet."""

    @property
    def created(self) -> int:
        """Unix seconds."""
        found = read_file(self.id)
        return self.stored.modified if self.is_result or found is None else made_at(found[0])

    @property
    def is_result(self) -> bool:
        """Whether a batch wrote it."""
        found = read_file(self.id)
        return found is not None and found[1] is not None

    def to_wire(self) -> dict[str, Any]:
        """As OpenAI's API has it."""
        return {
            "id": self.id,
            "object": "file",
            "bytes": self.stored.bytes,
            "created_at": self.created,
            "filename": self.name,
            "purpose": "batch_output" if self.is_result else "batch",
            "status": "processed",
        }


class Files:
    """The files of one namespace. Every function waits for the storage; all raise `StorageError`."""

    def __init__(self, storage: Storage, namespace: str) -> None:
        self._storage = storage
        self._folder = f"{namespace}/files"

    def add(self, stem: str, name: str, content: IO[bytes]) -> File:
        """Stores an upload."""
        id_, name = file_id(stem), _plain(name)
        path = f"{self._folder}/{id_}/{name}"
        self._storage.put(path, content)
        size = content.tell()
        return File(id_, name, Stored(path, size, made_at(stem)))

    def all(self) -> list[File]:
        """Newest first."""
        found = [file for stored in self._storage.find(self._folder) if (file := self._file(stored))]
        return sorted(found, key=lambda file: (file.created, file.id), reverse=True)

    def find(self, id_: str) -> File | None:
        """The file with that id; None where there is none."""
        known = read_file(id_)
        if known is None:
            return None
        stem, role = known
        if role is not None:
            return self._result(stem, role)
        found = map(self._file, self._storage.find(f"{self._folder}/{id_}"))
        return next((file for file in found if file), None)

    def remove(self, file: File) -> None:
        """Removes it."""
        self._storage.remove(f"{self._folder}/{file.id}")

    def blocks(self, file: File) -> Iterator[bytes]:
        """Its content, piece by piece."""
        stem, role = read_file(file.id) or ("", None)
        if file.is_partial and role is not None:
            return self._partial(stem, role)
        return self._storage.blocks(file.stored.path)

    def address(self, file: File) -> str:
        """Where a job reads it."""
        return f"{self._storage.uri}/{file.stored.path}"

    def result_address(self, stem: str, role: Role) -> str:
        """Where a batch's job writes its results."""
        return f"{self._storage.uri}/{self._folder}/{file_id(stem, role)}/{result_name(stem, role)}"

    def _result(self, stem: str, role: Role) -> File | None:
        id_, name = file_id(stem, role), result_name(stem, role)
        path = f"{self._folder}/{id_}/{name}"
        stored = self._storage.look(path)
        if stored is not None or self._is_whole(stem):
            return self._file(stored) if stored else None
        size = sum(map(len, self._partial(stem, role)))
        return File(id_, name, Stored(path, size, made_at(stem)), is_partial=True) if size else None

    def _is_whole(self, stem: str) -> bool:
        """The output is written last: where it is, all is."""
        return self._storage.look(self._output(stem)) is not None

    def _partial(self, stem: str, role: Role) -> Iterator[bytes]:
        return partial_results(self._storage, self._output(stem), role)

    def _output(self, stem: str) -> str:
        return f"{self._folder}/{file_id(stem, 'output')}/{result_name(stem, 'output')}"

    def _file(self, stored: Stored) -> File | None:
        """None for what is no file of its own, such as the parts of results that are not whole yet."""
        id_, _, name = stored.path.removeprefix(f"{self._folder}/").partition("/")
        known = read_file(id_)
        if known is None or "/" in name:
            return None
        stem, role = known
        if role is not None and name != result_name(stem, role):
            return None
        return File(id_, name, stored)


def _plain(name: str) -> str:
    """The name without folders; what an address cannot hold is an underscore."""
    plain = _UNUSUAL.sub("_", PurePosixPath(name).name)[-_LONGEST_NAME:]
    return plain if plain.strip(".") else "file.jsonl"

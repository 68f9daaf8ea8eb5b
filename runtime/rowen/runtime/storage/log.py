"""A log in object storage: entries are appended by whoever knows the last one, and by nobody else.

An object cannot be appended to, so each entry is an object of its own, named by its number and created only where
nothing is (`If-None-Match: *`). Of two attempts that both hold n entries one gets entry n + 1, and the other one has
lost the log for good: the log is the fence, too.
"""

import os
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, ValidationError

from rowen.crds.job.worker import ExitCode
from rowen.crds.names import JOB_UID_ENV
from rowen.runtime.failure import WorkerError
from rowen.runtime.storage.store import Store

_DIGITS = 8


class Author(BaseModel):
    """Who wrote an entry: its first line."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    job: str
    attempt: int
    entry: str
    """Unlike that of any other entry."""
    kind: str
    """What the body is."""


@dataclass(frozen=True)
class Entry:
    """An entry as it was read."""

    number: int
    author: Author
    body: bytes


class Log:
    """The log in a folder below a store's address, as one attempt sees it. Raises `WorkerError`, as its store does."""

    def __init__(self, store: Store, folder: str, attempt: int) -> None:
        self._store = store
        self._folder = folder
        self._job = os.environ.get(JOB_UID_ENV, "")
        self._attempt = attempt
        self.last = 0
        """Number of the entry that this attempt writes behind."""

    def numbers(self) -> list[int]:
        """Numbers of the entries that are there, in order. Raises `WorkerError` for any other object in the folder."""
        prefix = f"{self._folder}/"
        names = [name.removeprefix(prefix) for name in self._store.sizes(self._folder)]
        for name in names:
            if not (len(name) == _DIGITS and name.isdecimal()):
                raise self.foreign(name)
        return sorted(map(int, names))

    def read(self, number: int) -> Entry | None:
        """An entry; None when it is not there.

        Raises `WorkerError` for an object that no worker wrote, and where a newer attempt of this job wrote it.
        """
        data = self._store.read(self._name(number))
        if data is None:
            return None
        head, _, body = data.partition(b"\n")
        try:
            author = Author.model_validate_json(head)
        except ValidationError as error:
            raise self.foreign(f"{number:0{_DIGITS}}") from error
        if author.job == self._job and author.attempt > self._attempt:
            raise self.superseded()
        return Entry(number, author, body)

    def append(self, kind: str, body: bytes = b"") -> None:
        """Makes an entry last behind `last`. Raises `WorkerError` when somebody else has written there."""
        if not self.has_appended(kind, body):
            raise self.superseded()

    def has_appended(self, kind: str, body: bytes = b"") -> bool:
        """As `append`; False when somebody else has written there."""
        author = Author(job=self._job, attempt=self._attempt, entry=uuid.uuid4().hex, kind=kind)
        if not self._store.create(self._name(self.last + 1), author.model_dump_json().encode() + b"\n" + body):
            return False
        self.last += 1
        return True

    def remove(self, numbers: Iterable[int]) -> None:
        """Removes entries, in this order."""
        self._store.remove(map(self._name, numbers))

    def superseded(self) -> WorkerError:
        """What an attempt ends with that has lost the log."""
        message = f"another attempt has taken over the output of attempt {self._attempt} at {self._store.address()}"
        return WorkerError("Superseded", message, ExitCode.RETRY)

    def foreign(self, name: str) -> WorkerError:
        """What an attempt ends with that finds an object, or a line of one, which belongs to no such job."""
        address = self._store.address(f"{self._folder}/{name}")
        return WorkerError("OutputUnwritable", f"{address} is none of this job's; remove it, or name another output")

    def _name(self, number: int) -> str:
        return f"{self._folder}/{number:0{_DIGITS}}"

"""`Output` in object storage: groups are entries of a log, and the output is written whole when all rows are done.

An object appears at the output's address once, complete, and only where there was none. So whichever attempt writes
it, each row is there once. The log beside it (`<output>.parts/`) keeps what was answered through crashes, and keeps
an older attempt out; it goes when the output is there.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

from typing_extensions import override

from rowen.crds.job.worker import Location
from rowen.runtime.batch.output import Lines, Output
from rowen.runtime.batch.results import Result, may_begin, read_result
from rowen.runtime.batch.rows import Rows
from rowen.runtime.failure import WorkerError
from rowen.runtime.storage.log import Entry, Log
from rowen.runtime.storage.scratch import scratch_folder
from rowen.runtime.storage.store import Store

_CLAIM, _RESULTS, _SEAL = "claim", "results", "seal"
_READ_AT_ONCE = 16
_HEAD_BYTES = 4096


class _Object:
    """An object that will have results, and their local copy."""

    def __init__(self, location: Location, scratch: Path) -> None:
        folder, _, self._name = location.where.rpartition("/")
        if not self._name or folder.endswith("/"):
            raise WorkerError("OutputUnwritable", f"{location.where} names no object; the output is a file")
        self.address = location.where
        self.store = Store(Location(where=folder, secret_name=location.secret_name), "OutputUnwritable")
        self.parts = f"{self._name}.parts"
        self.lines = Lines()
        """Input lines whose result is in the copy."""
        self._copy = scratch.open("xb")

    def add(self, line: int, data: bytes) -> None:
        """Adds a result to the copy."""
        self._copy.write(data)
        self.lines.add(line)

    def is_there(self) -> bool:
        """Whether there is an object, of whomever."""
        return self.store.size(self._name) is not None

    def results(self, rows: Rows) -> Iterator[Result]:
        """The results in the object that is there. Raises `WorkerError` when they are not of these rows."""
        head = self.store.read(self._name, _HEAD_BYTES) or b""
        if not may_begin(head, rows):
            raise self._foreign(1)
        written = scratch_folder() / "written"
        self.store.download(self._name, written)
        with written.open("rb") as stream:
            for number, data in enumerate(stream, start=1):
                yield self._result(data, rows, number)

    def write(self) -> None:
        """Makes the object out of the copy. Raises `WorkerError` when another one is there."""
        self._copy.flush()
        if not self.store.create_from(Path(self._copy.name), self._name):
            raise self.taken()

    def taken(self) -> WorkerError:
        """The address has something that this job did not write."""
        message = f"{self.address} is there already and is not this job's whole output; name another one"
        return WorkerError("OutputUnwritable", message)

    def _result(self, data: bytes, rows: Rows, number: int) -> Result:
        read = read_result(data, rows) if data.endswith(b"\n") else None
        if read is None:
            raise self._foreign(number)
        return Result(read.line, data, read.failed)

    def _foreign(self, number: int) -> WorkerError:
        message = f"{self.address}:{number} is no result of this input; name another output file"
        return WorkerError("OutputUnwritable", message)


class StoreOutput(Output):
    """One object, or two of which the second has the failed rows."""

    # A group is an object, which costs two requests, and a third when an attempt reads it again.
    group_seconds = 5.0

    def __init__(self, rows: Rows, output: Location, errors: Location | None, attempt: int) -> None:
        """Takes the output for this attempt.

        Raises `WorkerError`, and has changed nothing, when something is there that no job on these rows wrote.
        """
        self._rows = rows
        scratch = scratch_folder()
        self._output = _Object(output, scratch / "output")
        self._errors = _Object(errors, scratch / "errors") if errors else None
        self._log = Log(self._output.store, self._output.parts, attempt)
        self.done = Lines()
        self.failed = 0
        self._complete = self._output.is_there()
        self._sealed = False
        if self._complete:
            self._read_objects()
        else:
            self._take_log()

    @override
    def append(self, results: Sequence[Result]) -> None:
        self._append(_RESULTS, b"".join(result.data for result in results))
        self._add(results)

    @override
    def close(self) -> None:
        if not self._complete:
            if not self._sealed:
                self._append(_SEAL)
            # The output last: where it is, all is.
            if self._errors is not None and len(self._errors.lines):
                self._errors.write()
            self._output.write()
        # From the first on: what a kill leaves of a log has no beginning, and is known as left.
        self._log.remove(self._log.numbers())

    def _append(self, kind: str, body: bytes = b"") -> None:
        self._log.append(kind, body)
        if self._output.is_there():
            # A later attempt has completed it and removed the log: the entry was the first of another one.
            self._log.remove([self._log.last])
            raise self._log.superseded()

    def _read_objects(self) -> None:
        for each in (self._output, self._errors):
            if each is not None and each.is_there():
                self._count(each.results(self._rows))
        if len(self.done) < len(self._rows):
            raise self._output.taken()

    def _take_log(self) -> None:
        numbers = self._log.numbers()
        there = set(numbers)
        whole = next(number for number in count(1) if number not in there) - 1
        for entry in self._entries(1, whole):
            self._read(entry)
        if self._errors is not None and not self._sealed and self._errors.is_there():
            raise self._errors.taken()
        # Ends of logs that lost their beginning: their output had been written.
        self._log.remove(number for number in numbers if number > whole)
        while not (self._sealed or self._log.has_appended(_CLAIM)):
            for entry in self._entries(self._log.last + 1, self._log.last + 1):
                self._read(entry)

    def _entries(self, first: int, last: int) -> Iterator[Entry]:
        """These entries, some read ahead."""
        with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
            for begin in range(first, last + 1, _READ_AT_ONCE):
                numbers = range(begin, min(begin + _READ_AT_ONCE, last + 1))
                for entry in pool.map(self._log.read, numbers):
                    if entry is None:
                        raise self._log.superseded()
                    yield entry

    def _read(self, entry: Entry) -> None:
        self._log.last = entry.number
        results = []
        for number, data in enumerate(entry.body.splitlines(keepends=True), start=1):
            read = read_result(data, self._rows)
            if read is None:
                raise self._log.foreign(f"{entry.number:08}:{number + 1}")
            results.append(Result(read.line, data, read.failed))
        self._add([result for result in results if result.line not in self.done])
        # A seal of an input that has grown is none.
        self._sealed = entry.author.kind == _SEAL and len(self.done) == len(self._rows)

    def _add(self, results: Sequence[Result]) -> None:
        for result in results:
            place = self._errors if self._errors is not None and result.failed else self._output
            place.add(result.line, result.data)
        self._count(results)

    def _count(self, results: Iterable[Result]) -> None:
        for result in results:
            self.done.add(result.line)
            self.failed += result.failed

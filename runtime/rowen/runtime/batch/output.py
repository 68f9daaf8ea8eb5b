"""Where results go: appended in groups, and after any crash each row is there at most once."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from rowen.runtime.batch.results import Result


class Lines:
    """A set of input lines, in a byte each."""

    def __init__(self, lines: Iterable[int] = ()) -> None:
        self._members = bytearray()
        self._count = 0
        for line in lines:
            self.add(line)

    def add(self, line: int) -> None:
        """Adds a line; one that is there already stays."""
        if line >= len(self._members):
            self._members.extend(bytes(max(line + 1 - len(self._members), len(self._members))))
        self._count += not self._members[line]
        self._members[line] = 1

    def __contains__(self, line: int) -> bool:
        return line < len(self._members) and bool(self._members[line])

    def __len__(self) -> int:
        return self._count


class Output(Protocol):
    """The results of a job. Where there is a place for errors, failed rows are there and all others here."""

    done: Lines
    """Input lines whose result is written."""
    failed: int
    """How many of them are errors."""
    group_seconds: float
    """How long results are gathered before they are written: so much work may have to be done again."""

    def append(self, results: Sequence[Result]) -> None:
        """Appends a group of results and makes them last; none of their lines is done yet.

        Called by one thread at a time. Of a group that a crash cuts short any part may be written, each row wholly or
        not at all. Raises `WorkerError` when a newer attempt has the output, and `OSError`.
        """

    def close(self) -> None:
        """Completes the output and gives it up. Not called when the job fails. Raises as `append` does."""

"""Whose the members of a device's pool are: processes that have come in ask for arenas, or bring those they have."""

import contextlib
import errno
from dataclasses import dataclass
from pathlib import Path

from rowen.node_agent.memory.pool import Admission, Kind, Pool, PoolStatus

_MOST_HANDLES = 32768
"""Of one arena."""
BOOK = "device.memory"
"""File in a device's directory that says who owns how much; it outlives agents."""


@dataclass(frozen=True)
class Borrower:
    """A process that has an arena."""

    slot: int | None
    """Of its pod; None: an engine."""
    pid: int

    @property
    def kind(self) -> Kind:
        """What it is to the pool."""
        return Kind.ONLINE if self.slot is None else Kind.OFFLINE


class Loans:
    """A pool and its borrowers. `lend`, `adopt`, `take_back` and `forget` are called by the door's thread."""

    def __init__(self, pool: Pool, directory: Path) -> None:
        """Goes on with the book in `directory`, or begins it. Raises `OSError`."""
        self.pool = pool
        self.borrowers: dict[int, Borrower] = {}
        """By member number."""
        self._handles = pool.status().total
        pool.keep(directory / BOOK)

    def lend(self, borrower: Borrower, capacity: int) -> Admission:
        """A new arena with a grant of 0; a capacity of 0 is as many handles as there are. Raises `OSError`."""
        most = min(self._handles, _MOST_HANDLES)
        if capacity > most:
            raise OSError(errno.EINVAL, f"an arena of this device has at most {most} handles, not {capacity}")
        admission = self.pool.admit(borrower.kind, capacity or most)
        try:
            self.pool.name(admission.number, borrower.pid)
        except OSError:
            self.pool.dismiss(admission.number)
            raise
        self.borrowers[admission.number] = borrower
        return admission

    def adopt(self, borrower: Borrower, arena: int, memory: int) -> int:
        """Goes on with an arena that the process has. The descriptors stay the caller's. Raises `OSError`."""
        number = self.pool.adopt(borrower.kind, borrower.pid, arena, memory)
        known = self.borrowers.setdefault(number, borrower)
        if known != borrower:
            raise OSError(errno.EEXIST, f"the arena is that of process {known.pid}")
        return number

    def take_back(self, number: int) -> None:
        """The process is gone, or runs another program."""
        with contextlib.suppress(KeyError):
            self.pool.dismiss(number)
        self.borrowers.pop(number, None)

    def forget(self, pid: int) -> None:
        """The process has nothing of the last agent's pool."""
        self.pool.forget(pid)

    def share(self, number: int, request: int, limit: int) -> None:
        """What an offline process may own, as `Pool.share`."""
        self.pool.share(number, request, limit)

    def demand(self, number: int, *, pressures: int, target: int, growth: int, threshold: float) -> bool:
        """What an engine shall own, as `Pool.demand`."""
        return self.pool.demand(number, pressures=pressures, target=target, growth=growth, threshold=threshold)

    def status(self) -> PoolStatus:
        """The pool now."""
        return self.pool.status()

"""Whose the members of a device's pool are: processes that have come in ask for arenas, or bring those they have."""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import structlog

from rowen.node_agent.memory.ledgers import Ledgers
from rowen.node_agent.memory.pool import Pool
from rowen.node_agent.memory.pool_status import Kind, PoolStatus

log = structlog.get_logger()

_MOST_HANDLES = 32768
"""Of one arena."""
_MOST_OF_A_SLOT = 12
"""Arenas of one slot's processes: a pod that makes many of them keeps no other out, and no round of the pool long."""
_FREEING_THREADS = 2
"""The kernel takes some 0.5 s to free a GiB of small pages: nobody at the door waits for that."""
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


@dataclass(frozen=True)
class Loan:
    """A new arena."""

    number: int
    """Of the member."""
    files: tuple[int, ...]
    """Arena, memory and, of an offline process, ledger. They stay the pool's; the process gets duplicates."""


@contextlib.contextmanager
def _without_ledger(borrower: Borrower) -> Iterator[None]:
    """What is wrong with a process's ledger costs it the ledger, and not the arena."""
    try:
        yield
    except (OSError, ValueError) as error:
        log.info("a process has no ledger: its handles are taken last", pid=borrower.pid, reason=str(error))


class Loans:
    """A pool and its borrowers. `lend`, `adopt`, `take_back` and `forget` are called by the door's thread."""

    def __init__(self, pool: Pool, directory: Path) -> None:
        """Goes on with the book in `directory`, or begins it. Raises `OSError`, `MemoryError`."""
        self.pool = pool
        pool.keep(directory / BOOK)
        self._ledgers = Ledgers(pool)
        self._freeing = ThreadPoolExecutor(_FREEING_THREADS, "rowen-freeing")
        self.borrowers: dict[int, Borrower] = {}
        """By member number."""
        self.fixed_bytes_of: Callable[[Borrower], int | None] = lambda _: None
        """What the pod of an engine's process has for itself; None: the pod is not known yet."""
        self._handles = pool.status().total

    def finish(self) -> None:
        """Before the end of the pool: waits until what was taken back is free."""
        self._freeing.shutdown()

    def close(self) -> None:
        """After the end of the pool."""
        self._ledgers.close()

    def lend(self, borrower: Borrower, capacity: int, *, keeps_ledger: bool) -> Loan:
        """A new arena with a grant of 0; a capacity of 0 is as many handles as there are. Raises `OSError`.

        An engine's has no more than it can ever get: it does not wait for memory that never comes.
        `keeps_ledger`: the process knows of ledgers. One that gets none loses its handles last.
        """
        most = min(self._handles, _MOST_HANDLES)
        if capacity > most:
            raise OSError(errno.EINVAL, f"an arena of this device has at most {most} handles, not {capacity}")
        self._check_number(borrower)
        capacity = self._reachable(borrower, capacity or most)
        admission = self.pool.admit(borrower.kind, capacity)
        try:
            self.pool.name(admission.number, borrower.pid)
        except OSError:
            self.pool.dismiss(admission.number)
            raise
        self.borrowers[admission.number] = borrower
        files = [admission.arena, admission.memory]
        if keeps_ledger and borrower.kind is Kind.OFFLINE:
            with _without_ledger(borrower):
                files.append(self._ledgers.admit(admission.number, capacity))
        return Loan(admission.number, tuple(files))

    def _reachable(self, borrower: Borrower, capacity: int) -> int:
        # A tenant has addresses for all that it loads in turn, however little of it has memory at once.
        fixed_bytes = self.fixed_bytes_of(borrower) if borrower.kind is Kind.ONLINE else None
        if fixed_bytes is None:
            return capacity
        # With none at all it would keep its cache beside the pool.
        return max(1, min(capacity, self._handles - -(-fixed_bytes // self.pool.handle_bytes)))

    def _check_number(self, borrower: Borrower) -> None:
        others = [known for known in self.borrowers.values() if known.slot == borrower.slot and known != borrower]
        if borrower.slot is not None and len(others) >= _MOST_OF_A_SLOT:
            raise OSError(errno.ENOSPC, f"processes of one pod have at most {_MOST_OF_A_SLOT} arenas of a device")

    def adopt(self, borrower: Borrower, arena: int, memory: int, ledger: int | None = None) -> int:
        """Goes on with an arena that the process has, and with its ledger where that is one.

        The descriptors stay the caller's. Raises `OSError`.
        """
        self._check_number(borrower)
        number = self.pool.adopt(borrower.kind, borrower.pid, arena, memory)
        known = self.borrowers.get(number)
        if known is None:
            if ledger is not None and borrower.kind is Kind.OFFLINE:
                with _without_ledger(borrower):
                    self._ledgers.adopt(number, self._capacity(memory), ledger)
            self.borrowers[number] = borrower
        elif known != borrower:
            raise OSError(errno.EEXIST, f"the arena is that of process {known.pid}")
        return number

    def _capacity(self, memory: int) -> int:
        """In handles, of a memory file that the pool has checked."""
        return os.fstat(memory).st_size // self.pool.handle_bytes

    def take_back(self, number: int) -> None:
        """The process is gone, or runs another program. What it had is free some time later."""
        if self.borrowers.pop(number, None) is None:
            return
        with contextlib.suppress(KeyError):
            self._ledgers.dismiss(number)
        self._freeing.submit(self.pool.dismiss, number)

    def forget(self, pid: int) -> None:
        """The process has nothing of the last agent's pool."""
        self.pool.forget(pid)

    def share(self, number: int, request: int, limit: int) -> None:
        """What an offline process may own, as `Pool.share`."""
        self.pool.share(number, request, limit)

    def demand(self, number: int, *, pressures: int, target: int, growth: int, threshold: float) -> bool:
        """What an engine shall own, as `Pool.demand`."""
        return self.pool.demand(number, pressures=pressures, target=target, growth=growth, threshold=threshold)

    def bound(self, number: int, handles: int) -> None:
        """What an engine may own at most, as `Pool.bound`."""
        self.pool.bound(number, handles)

    def fix(self, handles: int) -> None:
        """What nobody may have, as `Pool.fix`."""
        self.pool.fix(handles)

    def tokens_lost(self) -> int:
        """Tokens that offline work has to compute again for what was taken so far, as its ledgers say."""
        return self._ledgers.tokens()

    def status(self) -> PoolStatus:
        """The pool now."""
        return self.pool.status()

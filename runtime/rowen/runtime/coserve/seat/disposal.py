"""Closes what jobs leave behind.

To close a connection, or a descriptor that came in, can take as long as its maker wishes (SO_LINGER, a file system of
theirs), and so can taking back memory that they hold. So it is done by threads that nobody waits for, one for each
pod: none makes another's memory wait.
"""

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

_MOST = 8
"""Descriptors of one pod that wait. One that has as many gets no seat, and nothing that it says is received."""


class Disposal:
    """A thread that lives while there is something to close."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: deque[Callable[[], object]] = deque()
        self._working = False

    @property
    def idle(self) -> bool:
        """All is done."""
        return not self._left

    @property
    def full(self) -> bool:
        """Somebody makes it wait."""
        return len(self._left) >= _MOST

    def close(self, descriptors: Iterable[int]) -> None:
        """Has them closed soon; they are not the caller's any more."""
        for descriptor in descriptors:
            self.do(partial(os.close, descriptor))

    def do(self, work: Callable[[], object]) -> None:
        """Has something done soon whose `OSError` nobody has to know."""
        with self._lock:
            self._left.append(work)
            if self._working:
                return
            # Where there can be no thread now, the next call tries again.
            with contextlib.suppress(RuntimeError):
                threading.Thread(target=self._work, name="rowen-seat-disposal", daemon=True).start()
                self._working = True

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._left:
                    self._working = False
                    return
                work = self._left[0]
            with contextlib.suppress(OSError):
                work()
            self._left.popleft()

"""Closes what strangers and members leave behind.

The last one to close a socket may have to wait for as long as its maker wishes (SO_LINGER), and so has who closes, or
receives from, a connection on which such a socket was sent. So whatever came from outside is closed by a thread that
nobody waits for.
"""

import contextlib
import os
import socket
import threading
import time
from collections import deque

_MOST = 64
"""Descriptors that wait before nobody else is heard."""


class Disposal:
    """Of those who come in one way: who makes it wait, makes nobody else wait. Safe to use from several threads."""

    def __init__(self, name: str) -> None:
        """`name`: its thread's."""
        self._name = name
        self._lock = threading.Lock()
        self._left: deque[int] = deque()
        self._closing = False
        """There is a thread."""

    @property
    def full(self) -> bool:
        """So much is left that nothing more may come in this way for now."""
        return len(self._left) >= _MOST

    def close(self, *things: int | socket.socket) -> None:
        """Has descriptors and sockets closed soon, and what is left; they are not the caller's any more."""
        with self._lock:
            self._left.extend(thing if isinstance(thing, int) else thing.detach() for thing in things)
            if self._closing or not self._left:
                return
            # Where there can be no thread now, the next call tries again.
            with contextlib.suppress(RuntimeError):
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
                self._closing = True

    def has_room(self) -> bool:
        """Whether more may come in this way; tries again to close what is left where there could be no thread."""
        self.close()
        return not self.full

    def join(self, until: float) -> None:
        """Waits until everything is closed, but no longer than `until` (seconds, monotonic)."""
        while self._closing and time.monotonic() < until:
            time.sleep(0.001)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._left:
                    self._closing = False
                    return
                file = self._left[0]
            with contextlib.suppress(OSError):
                os.close(file)
            self._left.popleft()

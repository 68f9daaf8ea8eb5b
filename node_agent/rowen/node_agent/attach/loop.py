"""One thread that waits for what happens on sockets and processes, and has it handled."""

import selectors
import socket
import threading
import time
from collections.abc import Callable

import structlog

log = structlog.get_logger()

Handle = Callable[[], None]
_ROUND_SECONDS = 1.0
_REST_SECONDS = 0.05
"""After so long it is looked whether those who rest may go on."""
_END_SECONDS = 5.0


class Loop:
    """Runs from `start` until `end`. Any thread may have a file watched; its own alone calls what ends that."""

    def __init__(self, name: str, look: Handle) -> None:
        """`name`: its thread's. `look` is called every second at the latest."""
        self.name = name
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = socket.socketpair()
        self._wake.setblocking(False)
        self._selector.register(self._wake, selectors.EVENT_READ, lambda: self._wake.recv(64))
        self._resting: dict[socket.socket, tuple[Callable[[], bool], Handle]] = {}
        self._look = look
        self._stop = False
        self._beat = time.monotonic()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def beat(self) -> float:
        """When the thread last came round (seconds, monotonic clock)."""
        return self._beat

    def end(self) -> None:
        """Waits for the thread, 5 s at most."""
        self._stop = True
        self._waker.send(b"x")
        if self._thread.is_alive():
            self._thread.join(timeout=_END_SECONDS)
        self._selector.close()
        self._wake.close()
        self._waker.close()

    def watch(self, file: socket.socket | int, handle: Handle) -> None:
        """Has it handled when there is something to read."""
        self._selector.register(file, selectors.EVENT_READ, handle)

    def unwatch(self, file: socket.socket | int) -> None:
        """Not any more."""
        if isinstance(file, int) or self._resting.pop(file, None) is None:
            self._selector.unregister(file)

    def rest(self, connection: socket.socket, rested: Callable[[], bool]) -> None:
        """What is read of it next waits until `rested`, which is asked again and again."""
        self._resting[connection] = rested, self._selector.unregister(connection).data

    def _serve(self) -> None:
        while not self._stop:
            self._beat = time.monotonic()
            for key, _ in self._selector.select(timeout=_REST_SECONDS if self._resting else _ROUND_SECONDS):
                self._run(key.data)
            self._run(self._look)
            self._run(self._resume)

    def _run(self, handle: Handle) -> None:
        try:
            handle()
        except Exception:
            # Nothing that one process does may keep the others out.
            log.exception("what happened at a socket was not handled", thread=self.name)

    def _resume(self) -> None:
        for connection, (rested, handle) in list(self._resting.items()):
            if rested():
                del self._resting[connection]
                self._selector.register(connection, selectors.EVENT_READ, handle)

"""Those who have connected to a door and have not said who they are: at each socket only so many, and not for long."""

import contextlib
import errno
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from rowen.node_agent.attach.disposal import Disposal
from rowen.node_agent.attach.entrance import AttachRefused, listening_at, receive_hello
from rowen.node_agent.attach.loop import Loop

log = structlog.get_logger()

_HELLO_SECONDS = 2.0
"""A stranger that has said nothing for so long is sent away."""
_PAUSE_SECONDS = 0.05
"""Before the next one is accepted, where there was no descriptor for the last."""
_CLOSE_SECONDS = 1.0
"""So long an end of the door waits for what it has to close."""

Admit = Callable[[socket.socket, Disposal, bytes], None]
"""Reads a hello, and lets in who has said it: the connection is theirs then, and the disposal closes it.

Raises `ValueError`, `AttachRefused`, `OSError`: then they are not in, and the connection is not theirs.
"""
Refuse = Callable[[socket.socket, int, str], None]
"""Writes a refusal to a connection: an error number, and a reason for people. Raises `OSError`."""


@dataclass
class _Entrance:
    """A socket that is listened on."""

    listener: socket.socket
    admit: Admit
    disposal: Disposal
    strangers: int = 0


@dataclass
class _Stranger:
    """A connection that has not said hello."""

    entrance: _Entrance
    connection: socket.socket
    until: float


class Strangers:
    """Of one door, at all its sockets.

    One thread at a time may `open` more. All else is the loop's thread's, and the door's when the loop has ended.
    """

    def __init__(self, loop: Loop, *, most: int, longest: int, wish: str, refuse: Refuse) -> None:
        """`most`: at once, at one socket. `longest`: bytes of a hello; one more is read. `wish`: what they want."""
        self._loop = loop
        self._most = most
        self._longest = longest
        self._wish = wish
        self._write_refusal = refuse
        self._entrances: list[_Entrance] = []
        self._strangers: dict[socket.socket, _Stranger] = {}

    def open(self, ways: Mapping[Path, Admit]) -> None:
        """Listens on sockets made anew. Raises `OSError`: then on none of them, and nobody has come in."""
        with contextlib.ExitStack() as undo:
            listeners = [undo.enter_context(listening_at(path)) for path in ways]
            undo.pop_all()
        for listener, admit in zip(listeners, ways.values(), strict=True):
            entrance = _Entrance(listener, admit, Disposal(f"{self._loop.name}-end"))
            self._entrances.append(entrance)
            self._loop.watch(listener, partial(self._accept, entrance))

    def send_away_the_silent(self) -> None:
        """To be called again and again."""
        now = time.monotonic()
        for stranger in [stranger for stranger in self._strangers.values() if stranger.until < now]:
            self._forget(stranger)
            stranger.entrance.disposal.close(stranger.connection)

    def close(self) -> None:
        """Closes the sockets, and lets the strangers go. The loop has ended."""
        for entrance in self._entrances:
            entrance.disposal.close(entrance.listener)
        for stranger in list(self._strangers.values()):
            stranger.entrance.disposal.close(stranger.connection)

    def join(self) -> None:
        """Waits until all that its disposals were given is closed, 1 s at most."""
        until = time.monotonic() + _CLOSE_SECONDS
        for entrance in self._entrances:
            entrance.disposal.join(until)

    def _accept(self, entrance: _Entrance) -> None:
        if entrance.disposal.full:
            self._loop.rest(entrance.listener, entrance.disposal.has_room)
            return
        try:
            connection, _ = entrance.listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                log.error(f"no descriptors left for processes that want to {self._wish}", thread=self._loop.name)
                time.sleep(_PAUSE_SECONDS)
            return
        connection.setblocking(False)
        if entrance.strangers >= self._most:
            self._refuse(entrance, connection, errno.EAGAIN, f"too many processes {self._wish} at once")
            return
        entrance.strangers += 1
        stranger = _Stranger(entrance, connection, time.monotonic() + _HELLO_SECONDS)
        self._strangers[connection] = stranger
        self._loop.watch(connection, partial(self._hear, stranger))

    def _forget(self, stranger: _Stranger) -> None:
        del self._strangers[stranger.connection]
        self._loop.unwatch(stranger.connection)
        stranger.entrance.strangers -= 1

    def _hear(self, stranger: _Stranger) -> None:
        if stranger.connection not in self._strangers:
            return
        self._forget(stranger)
        entrance, connection = stranger.entrance, stranger.connection
        try:
            data = receive_hello(connection, self._longest)
        except OSError:
            data = b""
        if data:
            self._let_in(entrance, connection, data)
        else:
            entrance.disposal.close(connection)

    def _let_in(self, entrance: _Entrance, connection: socket.socket, data: bytes) -> None:
        try:
            entrance.admit(connection, entrance.disposal, data)
        except ValueError as error:
            self._refuse(entrance, connection, errno.EPROTO, str(error))
        except (AttachRefused, OSError) as error:
            self._refuse(entrance, connection, errno.EPERM, str(error))

    def _refuse(self, entrance: _Entrance, connection: socket.socket, number: int, reason: str) -> None:
        with contextlib.suppress(OSError):
            self._write_refusal(connection, number, reason)
        entrance.disposal.close(connection)

"""The agent's ride sockets: an engine's and each seat's, where strangers say who they are."""

import contextlib
import errno
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import structlog

from rowen.crds.ride.messages import EngineHello, JobHello
from rowen.node_agent.attach.disposal import Disposal
from rowen.node_agent.attach.entrance import AttachRefused, listening_at
from rowen.node_agent.attach.peer import peer_of
from rowen.node_agent.devices.counts import TenantCounts
from rowen.node_agent.ride.hall import Hall, Visitor
from rowen.node_agent.ride.loop import Loop
from rowen.node_agent.ride.speech import check_version, read, receive, refusal, say
from rowen.node_agent.ride.view import EngineView

log = structlog.get_logger()

_HELLO_SECONDS = 2.0
"""A stranger that has said nothing for so long is sent away."""
_MOST_STRANGERS = 8
"""At once, at one socket: one pod has it mounted."""
_CLOSE_SECONDS = 1.0
"""So long an end of the door waits for what it has to close."""


@dataclass(frozen=True)
class EngineDoorway:
    """Where a device's engine comes in."""

    path: Path
    device: str
    vet: Callable[[int], str]
    """By a process's id its pod; empty: not known. Raises `AttachRefused`, `OSError`."""


@dataclass(frozen=True)
class SeatDoorway:
    """Where a seat's job comes in."""

    path: Path
    seat: str
    vet: Callable[[int], tuple[str, str]]
    """By a process's id its pod, and the device in whose engine that rides. Raises `AttachRefused`, `OSError`."""


@dataclass
class _Entrance:
    listener: socket.socket
    admit: Callable[[Visitor, bytes], None]
    """Reads a hello, and lets in who has said it. Raises `ValueError`, `AttachRefused`, `OSError`."""
    disposal: Disposal = field(default_factory=lambda: Disposal("rowen-ride-end"))
    strangers: int = 0


@dataclass
class _Stranger:
    entrance: _Entrance
    connection: socket.socket
    until: float


class RideDoor:
    """All ride sockets of a node, served by one thread from `start` until `close`. Nobody waits for it."""

    def __init__(self) -> None:
        self._loop = Loop("rowen-ride", self._send_away_the_silent)
        self._hall = Hall(self._loop)
        self._entrances: list[_Entrance] = []
        self._strangers: dict[socket.socket, _Stranger] = {}

    def open(self, engine: EngineDoorway, seats: Sequence[SeatDoorway]) -> None:
        """Listens on sockets made anew, of one more device. Raises `OSError`: then on none of them."""
        admits: list[Callable[[Visitor, bytes], None]] = [partial(self._admit_engine, engine)]
        admits += [partial(self._admit_rider, seat) for seat in seats]
        paths = [engine.path, *(seat.path for seat in seats)]
        with contextlib.ExitStack() as undo:
            listeners = [undo.enter_context(listening_at(path)) for path in paths]
            undo.pop_all()
        for listener, admit in zip(listeners, admits, strict=True):
            entrance = _Entrance(listener, admit)
            self._entrances.append(entrance)
            self._loop.watch(listener, partial(self._accept, entrance))

    def start(self) -> None:
        """Begins to let processes in."""
        self._loop.start()

    def beat(self) -> float:
        """When the thread last came round (seconds, monotonic clock); it does so every second at the latest."""
        return self._loop.beat()

    def engine(self, device: str) -> EngineView | None:
        """The device's engine; None: there is none that takes riders in."""
        return self._hall.engine(device)

    def joined(self, device: str) -> int:
        """How many jobs are joined with the device's engine."""
        return self._hall.joined(device)

    def counts(self, seat: str, uid: str) -> TenantCounts:
        """What a pod has done in a seat."""
        return self._hall.counts(seat, uid)

    def close(self) -> None:
        """Closes the sockets. Who rides rides on, and looks for the next agent."""
        self._loop.end()
        for entrance in self._entrances:
            entrance.disposal.close(entrance.listener)
        for stranger in self._strangers.values():
            stranger.entrance.disposal.close(stranger.connection)
        self._hall.close()
        until = time.monotonic() + _CLOSE_SECONDS
        for entrance in self._entrances:
            entrance.disposal.join(until)

    def _admit_engine(self, doorway: EngineDoorway, visitor: Visitor, data: bytes) -> None:
        hello = read(EngineHello, data)
        check_version(hello)
        self._hall.engine_comes(doorway.device, doorway.vet, visitor, hello)

    def _admit_rider(self, doorway: SeatDoorway, visitor: Visitor, data: bytes) -> None:
        hello = read(JobHello, data)
        check_version(hello)
        self._hall.rider_comes(doorway.seat, doorway.vet, visitor, hello)

    def _accept(self, entrance: _Entrance) -> None:
        if entrance.disposal.full:
            self._loop.rest(entrance.listener, partial(_emptied, entrance.disposal))
            return
        try:
            connection, _ = entrance.listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                log.error("no descriptors left for processes that want to ride")
                time.sleep(0.05)
            return
        connection.setblocking(False)
        if entrance.strangers >= _MOST_STRANGERS:
            _refuse(connection, entrance.disposal, "too many processes come in at once")
            return
        entrance.strangers += 1
        stranger = _Stranger(entrance, connection, time.monotonic() + _HELLO_SECONDS)
        self._strangers[connection] = stranger
        self._loop.watch(connection, partial(self._hear, stranger))

    def _forget(self, stranger: _Stranger) -> None:
        del self._strangers[stranger.connection]
        self._loop.unwatch(stranger.connection)
        stranger.entrance.strangers -= 1

    def _send_away_the_silent(self) -> None:
        now = time.monotonic()
        for stranger in [stranger for stranger in self._strangers.values() if stranger.until < now]:
            self._forget(stranger)
            stranger.entrance.disposal.close(stranger.connection)

    def _hear(self, stranger: _Stranger) -> None:
        if stranger.connection not in self._strangers:
            return
        self._forget(stranger)
        entrance, connection = stranger.entrance, stranger.connection
        try:
            data = receive(connection)
        except OSError:
            data = b""
        if data:
            self._let_in(entrance, connection, data)
        else:
            entrance.disposal.close(connection)

    def _let_in(self, entrance: _Entrance, connection: socket.socket, data: bytes) -> None:
        try:
            peer = peer_of(connection)
        except OSError as error:
            _refuse(connection, entrance.disposal, str(error))
            return
        try:
            entrance.admit(Visitor(peer, connection, entrance.disposal), data)
        except (ValueError, AttachRefused, OSError) as error:
            log.info("a process does not ride", pid=peer.pid, reason=str(error))
            os.close(peer.pidfd)
            _refuse(connection, entrance.disposal, str(error))


def _refuse(connection: socket.socket, disposal: Disposal, reason: str) -> None:
    with contextlib.suppress(OSError):
        say(connection, refusal(reason))
    disposal.close(connection)


def _emptied(disposal: Disposal) -> bool:
    disposal.close()  # tries again where there could be no thread for it
    return not disposal.full

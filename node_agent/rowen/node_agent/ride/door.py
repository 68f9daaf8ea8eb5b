"""The agent's ride sockets: an engine's and each seat's, where strangers say who they are."""

import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from rowen.crds.ride.messages import LONGEST_MESSAGE, EngineHello, JobHello
from rowen.node_agent.attach.disposal import Disposal
from rowen.node_agent.attach.entrance import AttachRefused, known_of
from rowen.node_agent.attach.loop import Loop
from rowen.node_agent.attach.peer import peer_of
from rowen.node_agent.attach.strangers import Strangers
from rowen.node_agent.devices.counts import TenantCounts
from rowen.node_agent.ride.hall import Hall, Visitor
from rowen.node_agent.ride.speech import check_version, read, refusal, say
from rowen.node_agent.ride.view import EngineView

log = structlog.get_logger()

_MOST_STRANGERS = 8
"""At once, at one socket: one pod has it mounted."""


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


_Enter = Callable[[Visitor, bytes], None]
"""Reads a hello, and lets in who has said it. Raises `ValueError`, `AttachRefused`, `OSError`."""


class RideDoor:
    """All ride sockets of a node, served by one thread from `start` until `close`. Nobody waits for it."""

    def __init__(self, has_gone: Callable[[str], bool] = lambda _: False) -> None:
        """`has_gone`: whether a pod, by its UID, is known to have no seat any more."""
        self._loop = Loop("rowen-ride", self._look)
        self._strangers = Strangers(
            self._loop, most=_MOST_STRANGERS, longest=LONGEST_MESSAGE, wish="come in", refuse=_refuse
        )
        self._hall = Hall(self._loop, has_gone)

    def open(self, engine: EngineDoorway, seats: Sequence[SeatDoorway]) -> None:
        """Listens on sockets made anew, of one more device. Raises `OSError`: then on none of them."""
        ways = {engine.path: partial(_admit, partial(self._enter_engine, engine))}
        ways |= {seat.path: partial(_admit, partial(self._enter_rider, seat)) for seat in seats}
        self._strangers.open(ways)

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
        self._strangers.close()
        self._hall.close()
        self._strangers.join()

    def _look(self) -> None:
        self._strangers.send_away_the_silent()
        self._hall.look()

    def _enter_engine(self, doorway: EngineDoorway, visitor: Visitor, data: bytes) -> None:
        hello = read(EngineHello, data)
        check_version(hello)
        self._hall.engine_comes(doorway.device, doorway.vet, visitor, hello)

    def _enter_rider(self, doorway: SeatDoorway, visitor: Visitor, data: bytes) -> None:
        hello = read(JobHello, data)
        check_version(hello)
        self._hall.rider_comes(doorway.seat, doorway.vet, visitor, hello)


def _admit(enter: _Enter, connection: socket.socket, disposal: Disposal, data: bytes) -> None:
    peer = peer_of(connection)
    try:
        enter(Visitor(peer, connection, disposal), data)
    except (ValueError, AttachRefused, OSError) as error:
        log.info("a process does not ride", pid=peer.pid, reason=str(error), **known_of(error))
        os.close(peer.pidfd)
        raise


def _refuse(connection: socket.socket, _: int, reason: str) -> None:
    say(connection, refusal(reason))

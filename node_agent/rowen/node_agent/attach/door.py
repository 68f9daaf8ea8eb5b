"""The agent's sockets: processes come in through them, and their ends are noticed."""

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from rowen.node_agent.attach.disposal import Disposal
from rowen.node_agent.attach.entrance import AttachRefused, Doorway, Gate, known_of
from rowen.node_agent.attach.loop import Loop
from rowen.node_agent.attach.message import LONGEST_HELLO, Hello, read_hello, welcome
from rowen.node_agent.attach.peer import Peer, peer_of
from rowen.node_agent.attach.strangers import Strangers
from rowen.node_agent.attach.teller import Teller
from rowen.node_agent.memory.loans import Borrower

log = structlog.get_logger()

_MOST_STRANGERS = 64
"""At once, at one socket."""


@dataclass
class _Member:
    """A process that is in."""

    gate: Gate
    number: int
    slot: int | None
    peer: Peer
    connection: socket.socket | None
    disposal: Disposal
    teller: Teller

    @property
    def key(self) -> tuple[int, int]:
        return id(self.gate), self.number


class Door:
    """All sockets of a node, served by one thread from `start` until `close`.

    No caller and no device waits for it: a process that comes in waits, and stands still until it is in.
    """

    def __init__(self) -> None:
        self._loop = Loop("rowen-door", lambda: self._strangers.send_away_the_silent())
        self._strangers = Strangers(
            self._loop, most=_MOST_STRANGERS, longest=LONGEST_HELLO, wish="attach", refuse=_refuse
        )
        self._members: dict[tuple[int, int], _Member] = {}

    def open(self, gate: Gate, doorways: Sequence[Doorway]) -> None:
        """Listens on sockets made anew. Raises `OSError`: then on none of them, and nobody has come in."""
        self._strangers.open({doorway.path: partial(self._admit, gate, doorway) for doorway in doorways})

    def start(self) -> None:
        """Begins to let processes in."""
        self._loop.start()

    def beat(self) -> float:
        """When the thread last came round (seconds, monotonic clock); it does so every second at the latest."""
        return self._loop.beat()

    def members(self, gate: Gate, slot: int) -> set[int]:
        """Process ids of those who have come in for a slot."""
        return {member.peer.pid for member in self._of(gate) if member.slot == slot}

    def engines(self, gate: Gate) -> dict[int, bool]:
        """Engines' processes that have come in, by id, and whether each has memory of the device's pool."""
        return {member.peer.pid: member.teller.has_memory for member in self._of(gate) if member.slot is None}

    def withholding(self, gate: Gate) -> set[tuple[int, int]]:
        """Offline processes that have not handed over what they have of an earlier agent, by slot and process id."""
        members = [member for member in self._of(gate) if member.teller.withholds_memory]
        return {(member.slot, member.peer.pid) for member in members if member.slot is not None}

    def close(self) -> None:
        """Closes the sockets. Those who are in notice, and look for the next agent."""
        self._loop.end()
        self._strangers.close()
        for member in self._members.values():
            os.close(member.peer.pidfd)
            if member.connection:
                member.disposal.close(member.connection)
        self._strangers.join()

    def _of(self, gate: Gate) -> list[_Member]:
        # Other threads ask while members come and go.
        return [member for member in list(self._members.values()) if member.gate is gate]

    def _admit(self, gate: Gate, doorway: Doorway, connection: socket.socket, disposal: Disposal, data: bytes) -> None:
        hello, slot = read_hello(data), doorway.slot
        peer = peer_of(connection)
        try:
            doorway.vet(peer.pid)
            admission = gate.admit(slot, peer.pid, peer.pidfd)
        except (AttachRefused, OSError) as error:
            log.warning("a process was not let in", pid=peer.pid, reason=str(error), **known_of(error))
            os.close(peer.pidfd)
            raise
        teller = Teller(gate.loans, Borrower(slot, peer.pid))
        member = _Member(gate, admission.number, slot, peer, connection, disposal, teller)
        self._enter(member, connection, hello)
        try:
            socket.send_fds(connection, [welcome()], [admission.device_file, admission.member_file])
        except OSError:
            # It has gone already, or does not read; its end is seen on its pidfd.
            self._hang_up(member)
        finally:
            os.close(admission.member_file)

    def _enter(self, member: _Member, connection: socket.socket, hello: Hello) -> None:
        before = self._members.get(member.key)
        if before is not None:
            # The process has attached again, perhaps as another program: the device knows.
            self._drop(before)
            if before.peer.pid == member.peer.pid:
                member.teller = before.teller
        member.teller.come(holds_memory=hello.holds_memory)
        self._members[member.key] = member
        self._loop.watch(member.peer.pidfd, partial(self._end, member))
        self._loop.watch(connection, partial(self._listen, member))

    def _is_in(self, member: _Member) -> bool:
        return self._members.get(member.key) is member

    def _listen(self, member: _Member) -> None:
        """A member asks for memory, or its connection has ended."""
        if not self._is_in(member) or member.connection is None:
            return
        if member.disposal.full:
            self._loop.rest(member.connection, member.disposal.has_room)
        elif not member.teller.hear(member.connection, member.disposal):
            self._hang_up(member)

    def _hang_up(self, member: _Member) -> None:
        self._disconnect(member)
        member.gate.loosen(member.number)

    def _disconnect(self, member: _Member) -> None:
        if member.connection is not None:
            self._loop.unwatch(member.connection)
            member.disposal.close(member.connection)
            member.connection = None

    def _drop(self, member: _Member) -> None:
        self._loop.unwatch(member.peer.pidfd)
        os.close(member.peer.pidfd)
        self._disconnect(member)

    def _end(self, member: _Member) -> None:
        if not self._is_in(member):
            return
        del self._members[member.key]
        self._drop(member)
        member.gate.dismiss(member.number)
        member.teller.leave()


def _refuse(connection: socket.socket, number: int, reason: str) -> None:
    connection.send(welcome(number, reason))

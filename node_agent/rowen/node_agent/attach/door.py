"""The agent's sockets: processes come in through them, and their ends are noticed."""

import contextlib
import errno
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from rowen.node_agent.attach.disposal import Disposal
from rowen.node_agent.attach.entrance import AttachRefused, Doorway, Entrance, Gate, listening_at, receive_hello
from rowen.node_agent.attach.message import Hello, read_hello, welcome
from rowen.node_agent.attach.peer import Peer, peer_of
from rowen.node_agent.attach.teller import Teller
from rowen.node_agent.memory.loans import Borrower

log = structlog.get_logger()

_HELLO_SECONDS = 2.0
"""A stranger that has said nothing for so long is sent away."""
_MOST_STRANGERS = 64
"""At once, at one socket."""
_PAUSE_SECONDS = 0.05
"""After so long it is looked whether those who wait may go on."""
_CLOSE_SECONDS = 1.0
"""So long an end of the door waits for what it has to close."""


@dataclass
class _Stranger:
    """A connection that has not said hello."""

    entrance: Entrance
    connection: socket.socket
    until: float


@dataclass
class _Member:
    """A process that is in."""

    gate: Gate
    number: int
    entrance: Entrance
    pid: int
    pidfd: int
    connection: socket.socket | None
    teller: Teller

    @property
    def slot(self) -> int | None:
        return self.entrance.slot


class Door:
    """All sockets of a node, served by one thread from `start` until `close`.

    No caller and no device waits for it: a process that comes in waits, and stands still until it is in.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = socket.socketpair()
        self._wake.setblocking(False)
        self._selector.register(self._wake, selectors.EVENT_READ, self._clear_wake)
        self._strangers: dict[socket.socket, _Stranger] = {}
        self._members: dict[tuple[int, int], _Member] = {}
        self._entrances: list[Entrance] = []
        self._paused: dict[socket.socket, tuple[Disposal, Callable[[], None]]] = {}
        """Listeners and members' connections that wait until less is left to be closed."""
        self._stop = False
        self._beat = time.monotonic()
        self._thread = threading.Thread(target=self._serve, name="rowen-door", daemon=True)

    def open(self, gate: Gate, doorways: Sequence[Doorway]) -> None:
        """Listens on sockets made anew. Raises `OSError`: then on none of them, and nobody has come in."""
        with contextlib.ExitStack() as undo:
            listeners = [undo.enter_context(listening_at(doorway.path)) for doorway in doorways]
            undo.pop_all()
        for listener, doorway in zip(listeners, doorways, strict=True):
            entrance = Entrance(listener, gate, doorway.slot, doorway.vet, Disposal("rowen-disposal"))
            self._entrances.append(entrance)
            self._selector.register(listener, selectors.EVENT_READ, partial(self._accept, entrance))

    def start(self) -> None:
        """Begins to let processes in."""
        self._thread.start()

    def beat(self) -> float:
        """When the thread last came round (seconds, monotonic clock); it does so every second at the latest."""
        return self._beat

    def members(self, gate: Gate, slot: int) -> set[int]:
        """Process ids of those who have come in for a slot."""
        return {member.pid for member in list(self._members.values()) if member.gate is gate and member.slot == slot}

    def engines(self, gate: Gate) -> dict[int, bool]:
        """Engines' processes that have come in, by id, and whether each has memory of the device's pool."""
        members = [member for member in list(self._members.values()) if member.gate is gate and member.slot is None]
        return {member.pid: member.teller.has_memory for member in members}

    def withholding(self, gate: Gate) -> set[tuple[int, int]]:
        """Offline processes that have not handed over what they have of an earlier agent, by slot and process id."""
        members = [member for member in list(self._members.values()) if member.gate is gate]
        return {(each.slot, each.pid) for each in members if each.slot is not None and each.teller.withholds_memory}

    def close(self) -> None:
        """Closes the sockets. Those who are in notice, and look for the next agent."""
        self._stop = True
        self._waker.send(b"x")
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        self._selector.close()
        for entrance in self._entrances:
            entrance.disposal.close(entrance.listener)
        for stranger in list(self._strangers.values()):
            stranger.entrance.disposal.close(stranger.connection)
        for member in self._members.values():
            os.close(member.pidfd)
            if member.connection:
                member.entrance.disposal.close(member.connection)
        until = time.monotonic() + _CLOSE_SECONDS
        for entrance in self._entrances:
            entrance.disposal.join(until)
        self._wake.close()
        self._waker.close()

    def _clear_wake(self) -> None:
        self._wake.recv(64)

    def _serve(self) -> None:
        while not self._stop:
            self._beat = time.monotonic()
            for key, _ in self._selector.select(timeout=_PAUSE_SECONDS if self._paused else 1.0):
                try:
                    key.data()
                except Exception:
                    # Nothing that one process does may keep the others out.
                    log.exception("an event at the agent's door was not handled")
            self._send_away_the_silent()
            self._resume()

    def _pause(self, connection: socket.socket, disposal: Disposal) -> None:
        self._paused[connection] = disposal, self._selector.unregister(connection).data

    def _resume(self) -> None:
        for connection, (disposal, handle) in list(self._paused.items()):
            disposal.close()  # tries again where there could be no thread for it
            if not disposal.full:
                del self._paused[connection]
                self._selector.register(connection, selectors.EVENT_READ, handle)

    def _unwatch(self, connection: socket.socket) -> None:
        if self._paused.pop(connection, None) is None:
            self._selector.unregister(connection)

    def _accept(self, entrance: Entrance) -> None:
        if entrance.disposal.full:
            self._pause(entrance.listener, entrance.disposal)
            return
        try:
            connection, _ = entrance.listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                log.error("no descriptors left for processes that want to attach")
                time.sleep(0.05)
            return
        connection.setblocking(False)
        if entrance.strangers >= _MOST_STRANGERS:
            self._refuse(entrance, connection, errno.EAGAIN, "too many processes attach at once")
            return
        entrance.strangers += 1
        stranger = _Stranger(entrance, connection, time.monotonic() + _HELLO_SECONDS)
        self._strangers[connection] = stranger
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._hear(stranger))

    def _forget(self, stranger: _Stranger) -> None:
        del self._strangers[stranger.connection]
        self._selector.unregister(stranger.connection)
        stranger.entrance.strangers -= 1

    def _send_away_the_silent(self) -> None:
        now = time.monotonic()
        for stranger in [stranger for stranger in self._strangers.values() if stranger.until < now]:
            self._forget(stranger)
            stranger.entrance.disposal.close(stranger.connection)

    def _refuse(self, entrance: Entrance, connection: socket.socket, error: int, reason: str) -> None:
        with contextlib.suppress(OSError):
            connection.send(welcome(error, reason))
        entrance.disposal.close(connection)

    def _hear(self, stranger: _Stranger) -> None:
        if stranger.connection not in self._strangers:
            return
        self._forget(stranger)
        entrance, connection = stranger.entrance, stranger.connection
        try:
            data = receive_hello(connection)
        except OSError:
            data = b""
        if not data:
            entrance.disposal.close(connection)
            return
        try:
            hello = read_hello(data)
            peer = peer_of(connection)
        except ValueError as error:
            self._refuse(entrance, connection, errno.EPROTO, str(error))
        except OSError as error:
            self._refuse(entrance, connection, errno.EPERM, str(error))
        else:
            self._let_in(entrance, connection, peer, hello)

    def _let_in(self, entrance: Entrance, connection: socket.socket, peer: Peer, hello: Hello) -> None:
        try:
            entrance.vet(peer.pid)
            admission = entrance.gate.admit(entrance.slot, peer.pid, peer.pidfd)
        except (AttachRefused, OSError) as error:
            log.warning("a process was not let in", pid=peer.pid, reason=str(error))
            os.close(peer.pidfd)
            self._refuse(entrance, connection, errno.EPERM, str(error))
            return
        self._enter(entrance, admission.number, peer, connection, hello)
        try:
            socket.send_fds(connection, [welcome()], [admission.device_file, admission.member_file])
        except OSError:
            # It has gone already, or does not read; its end is seen on its pidfd.
            self._hang_up(entrance.gate, admission.number)
        finally:
            os.close(admission.member_file)

    def _enter(self, entrance: Entrance, number: int, peer: Peer, connection: socket.socket, hello: Hello) -> None:
        gate = entrance.gate
        before = self._members.get((id(gate), number))
        if before is not None:
            # The process has attached again, perhaps as another program: the device knows.
            self._drop(before)
        same = before is not None and before.pid == peer.pid
        teller = before.teller if before and same else Teller(gate.loans, Borrower(entrance.slot, peer.pid))
        teller.come(holds_memory=hello.holds_memory)
        member = _Member(gate, number, entrance, peer.pid, peer.pidfd, connection, teller)
        self._members[id(gate), number] = member
        self._selector.register(peer.pidfd, selectors.EVENT_READ, lambda: self._end(member))
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._listen(member))

    def _listen(self, member: _Member) -> None:
        """A member asks for memory, or its connection has ended."""
        if self._members.get((id(member.gate), member.number)) is not member or member.connection is None:
            return
        disposal = member.entrance.disposal
        if disposal.full:
            self._pause(member.connection, disposal)
        elif not member.teller.hear(member.connection, disposal):
            self._hang_up(member.gate, member.number)

    def _hang_up(self, gate: Gate, number: int) -> None:
        member = self._members[id(gate), number]
        self._disconnect(member)
        gate.loosen(number)

    def _disconnect(self, member: _Member) -> None:
        if member.connection is not None:
            self._unwatch(member.connection)
            member.entrance.disposal.close(member.connection)
            member.connection = None

    def _drop(self, member: _Member) -> None:
        self._selector.unregister(member.pidfd)
        os.close(member.pidfd)
        self._disconnect(member)

    def _end(self, member: _Member) -> None:
        if self._members.get((id(member.gate), member.number)) is not member:
            return
        del self._members[id(member.gate), member.number]
        self._drop(member)
        member.gate.dismiss(member.number)
        member.teller.leave()

"""A socket at which processes ask to come in: who may, and to which device."""

import contextlib
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rowen.node_agent.attach.message import LONGEST_HELLO
from rowen.node_agent.devices.device import Admission
from rowen.node_agent.memory.loans import Loans

_BACKLOG = 128
_MODE = 0o666
"""Containers run as any user; whoever has the folder mounted may come in."""


class AttachRefused(Exception):  # noqa: N818
    """A process may not come in; the reason is for people, and is told to that process: it names nobody else."""

    def __init__(self, reason: str, **known: str) -> None:
        """`known`: what the agent's log alone says besides."""
        super().__init__(reason)
        self.known = known


def known_of(error: Exception) -> dict[str, str]:
    """What the agent's log says of a refusal, and nobody else is told."""
    return error.known if isinstance(error, AttachRefused) else {}


class Gate(Protocol):
    """A device as its door sees it."""

    loans: Loans | None
    """Who has memory of its pool; None: it has no pool."""

    def admit(self, slot: int | None, pid: int, pidfd: int) -> Admission:
        """Lets a process in. Raises `OSError`."""

    def loosen(self, number: int) -> None:
        """A member's connection is gone."""

    def dismiss(self, number: int) -> None:
        """A member's process has ended."""


Vet = Callable[[int], None]
"""Looks at a process, by its id, before it is let in. Raises `AttachRefused`."""


@dataclass(frozen=True)
class Doorway:
    """Where processes come in: an engine's, or a slot's pod's."""

    path: Path
    slot: int | None
    vet: Vet = lambda _: None


def listening_at(path: Path) -> socket.socket:
    """A socket made anew at a path. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    with contextlib.ExitStack() as undo:
        undo.enter_context(listener)
        temporary = path.with_suffix(".new")
        temporary.unlink(missing_ok=True)
        listener.bind(str(temporary))
        temporary.chmod(_MODE)
        listener.listen(_BACKLOG)
        # Those who look for the old one find this one in its place, and never none.
        temporary.replace(path)
        undo.pop_all()
    return listener


def receive_hello(connection: socket.socket, longest: int = LONGEST_HELLO) -> bytes:
    """What was sent, and a byte more than `longest` of it at most. Raises `OSError`.

    Empty: the connection has ended, or descriptors came along.

    Such a message is not received: the kernel would close the descriptors here and now, whatever that takes.
    """
    _, _, flags, _ = connection.recvmsg(longest + 1, 0, socket.MSG_PEEK)
    return b"" if flags & socket.MSG_CTRUNC else connection.recv(longest + 1)

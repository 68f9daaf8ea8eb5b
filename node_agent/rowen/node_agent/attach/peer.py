"""Who is at the other end of a socket, as the kernel says it."""

import os
import socket
import struct
from dataclasses import dataclass

_CREDENTIALS = struct.Struct("=iII")
_SO_PEERPIDFD = 77
"""Linux 6.5; not in Python's `socket` yet."""


@dataclass(frozen=True)
class Peer:
    """A process that has connected."""

    pid: int
    """In the agent's PID namespace."""
    pidfd: int
    """The caller's to close."""


def peer_of(connection: socket.socket) -> Peer:
    """The process that called connect(). Raises `ProcessLookupError` when it is gone or cannot be seen."""
    pid, _, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    if pid <= 0:
        raise ProcessLookupError("its process is in a PID namespace that the agent does not see")
    return Peer(pid, _pidfd(connection, pid))


def _pidfd(connection: socket.socket, pid: int) -> int:
    try:
        data = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, 4)
        return int(struct.unpack("=i", data)[0])
    except ProcessLookupError:
        raise
    except OSError:
        return os.pidfd_open(pid)

"""Messages over a socket of the kind SOCK_SEQPACKET."""

import array
import os
import socket
from collections.abc import Sequence

_INT_BYTES = array.array("i").itemsize
_MOST_DESCRIPTORS = 253
"""Of a message, by the kernel (SCM_MAX_FD). With room for fewer it would close the others itself, and that can take as
long as who sent them wishes."""


class Message:
    """A message that came in, with its descriptors, which are the caller's."""

    def __init__(self, data: bytes, descriptors: list[int], *, whole: bool) -> None:
        self.data = data
        self.descriptors = descriptors
        self.whole = whole
        """Else it was longer than allowed."""


def send(line: socket.socket, data: bytes, descriptors: Sequence[int] = ()) -> None:
    """Sends one message. Raises `OSError`; `BlockingIOError` when there is no room now."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    line.sendmsg([data], rights, socket.MSG_NOSIGNAL)


def receive(line: socket.socket, longest: int) -> Message | None:
    """The next message; None: the other end is closed. Raises `OSError`; `BlockingIOError` when there is none now."""
    room = socket.CMSG_SPACE(_MOST_DESCRIPTORS * _INT_BYTES)
    data, ancillary, flags, _ = line.recvmsg(longest, room, socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(content[: len(content) - len(content) % _INT_BYTES])
    # An empty message looks like the end; nobody who means well sends one.
    if not data and not descriptors:
        return None
    whole = not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
    return Message(data, list(descriptors), whole=whole)


def close_all(descriptors: Sequence[int]) -> None:
    """Closes descriptors that are known to be harmless."""
    for descriptor in descriptors:
        os.close(descriptor)

"""Hands out memory: what a member may ask of its agent once it is in."""

import contextlib
import errno
import socket
from array import array

import structlog

from rowen.node_agent.attach.disposal import Disposal
from rowen.node_agent.attach.message import LONGEST_HELLO, MemberRequest, RequestKind, read_request, welcome
from rowen.node_agent.memory.loans import Borrower, Loans

log = structlog.get_logger()

_ARENA_FILES = 2
_MOST_FILES = 3
_ROOM = 16
"""Descriptors that may come along with a message; a newer library's may be more than this agent uses."""


def _look(connection: socket.socket) -> tuple[bytes, list[int], bool]:
    """The next message, which stays where it is: its data, its descriptors, and whether those are all.

    Descriptors for which there is no room are closed by whoever receives them, who would have to wait for that.
    """
    files = array("i")
    room = socket.CMSG_LEN(_ROOM * files.itemsize)
    how = socket.MSG_PEEK | socket.MSG_CMSG_CLOEXEC
    data, control, flags, _ = connection.recvmsg(LONGEST_HELLO + 1, room, how)
    for level, kind, content in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            files.frombytes(content[: len(content) - len(content) % files.itemsize])
    return data, list(files), not flags & socket.MSG_CTRUNC


class Teller:
    """One process on one device, for as long as it lives. Called by the door's thread."""

    def __init__(self, loans: Loans | None, borrower: Borrower) -> None:
        self._loans = loans
        self._borrower = borrower
        self._number: int | None = None
        self._asked = False
        self.has_memory = False
        """The process has an arena, or says that it has one of an earlier agent."""

    @property
    def withholds_memory(self) -> bool:
        """The process says that it has an arena, and has handed over none that could be taken."""
        return self._loans is not None and self.has_memory and self._number is None

    def come(self, *, holds_memory: bool) -> None:
        """The process attaches, perhaps again; one that says that it holds nothing runs another program."""
        self._asked = False
        self.has_memory = holds_memory
        if not holds_memory:
            self.leave()

    def leave(self) -> None:
        """Takes back what the process had."""
        if self._loans is None:
            return
        self._loans.forget(self._borrower.pid)
        if self._number is not None:
            self._loans.take_back(self._number)
            self._number = None

    def hear(self, connection: socket.socket, disposal: Disposal) -> bool:
        """Answers what the member says, whatever that is; what it has sent along goes to `disposal`.

        False: its connection has ended.
        """
        try:
            data, files, whole = _look(connection)
        except BlockingIOError:
            return True
        except OSError:
            return False
        try:
            if not data or not whole:
                return False
            connection.recv(LONGEST_HELLO + 1)
            self._answer(connection, data, files[:_MOST_FILES])
        finally:
            disposal.close(*files)
        return True

    def _answer(self, connection: socket.socket, data: bytes, files: list[int]) -> None:
        given: list[int] = []
        try:
            given = self._serve(read_request(data), files)
            answer = welcome()
        except ValueError as error:
            answer = welcome(errno.EPROTO, str(error))
        except OSError as error:
            log.info("a process gets no memory", pid=self._borrower.pid, reason=str(error))
            answer = welcome(error.errno or errno.EIO, error.strerror or str(error))
        # A member that does not read its answers goes without them.
        with contextlib.suppress(OSError):
            socket.send_fds(connection, [answer], given)

    def _serve(self, request: MemberRequest, files: list[int]) -> list[int]:
        if self._loans is None:
            raise OSError(errno.ENODEV, "the device has no pool of memory")
        if request.kind is RequestKind.HAND_OVER:
            self._take_over(self._loans, files)
            return []
        if self._asked or self._number is not None:
            raise OSError(errno.EEXIST, "the process has its memory already")
        loan = self._loans.lend(self._borrower, request.capacity, keeps_ledger=request.keeps_ledger)
        self._number = loan.number
        self._asked = self.has_memory = True
        return list(loan.files)

    def _take_over(self, loans: Loans, files: list[int]) -> None:
        if len(files) < _ARENA_FILES:
            raise OSError(errno.EPROTO, f"an arena has {_ARENA_FILES} descriptors, not {len(files)}")
        number = loans.adopt(self._borrower, *files)
        if self._number not in (None, number):
            loans.take_back(number)
            raise OSError(errno.EEXIST, "the process has other memory already")
        self._number = number
        self._asked = True

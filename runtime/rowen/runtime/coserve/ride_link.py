"""A riding job's connection to the agent of its device."""

import contextlib
import functools
import os
import socket
import time

from pydantic import ValidationError
from typing_extensions import override

from rowen.crds.names import RIDE_SOCKET_ENV
from rowen.crds.ride.messages import LONGEST_MESSAGE, RIDE_VERSION, JobHello, JobProgress, Welcome
from rowen.runtime.coserve.wire.line import close_all, receive, send
from rowen.runtime.native import Tenant

STAY_SECONDS = 0.5
"""Between two calls of `RideLink.stay`."""
_ANSWER_SECONDS = 10.0
_PROGRESS_SECONDS = 1.0
"""Between two reports."""
_LOOK_SECONDS = 1.0
"""Between two looks whether the agent is there."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 2.0
"""Before the next try to find one that was not there, or did not want this job."""


class RideLink(Tenant):
    """Asks for the engine, and tells how far the job is, through agents that come and go. One thread calls it."""

    def __init__(self, path: str) -> None:
        """`path`: of the agent's ride socket for jobs."""
        self._path = path
        self._line: socket.socket | None = None
        self._next = 0.0
        """When progress may be told again; seconds, monotonic."""
        self._rides = False
        """Whether agents are to know of it."""
        self._next_look = 0.0
        """When it looks again whether the agent is there; seconds, monotonic."""
        self._pause = _FIRST_PAUSE_SECONDS

    def join(self) -> socket.socket:
        """This job's end of a new pair with an engine. Raises `ConnectionError` that says why there is none now."""
        self.close()
        try:
            line = self._connected(JobHello())
            line.settimeout(_ANSWER_SECONDS)
            message = receive(line, LONGEST_MESSAGE)
        except OSError as error:
            self.close()
            raise ConnectionError(f"the agent does not answer: {error}") from error
        line.setblocking(False)
        if message is None:
            self.close()
            raise ConnectionError("the agent hung up")
        try:
            welcome = Welcome.model_validate_json(message.data)
            if welcome.version != RIDE_VERSION:
                raise ConnectionError(f"the agent speaks version {welcome.version}, this worker {RIDE_VERSION}")
            if not message.descriptors:
                raise ConnectionError(welcome.reason or "the agent has no engine")
            end = socket.socket(fileno=message.descriptors.pop())
            self._rides = True
            return end
        except ValidationError as error:
            raise ConnectionError("the agent's answer cannot be understood") from error
        finally:
            close_all(message.descriptors)

    def go_unpaired(self) -> None:
        """This job reaches its engine by itself: from now on `stay` lets agents know of it."""
        self._rides = True

    def stay(self) -> None:
        """Lets an agent that has come since know of this job, if it rides; never waits.

        To be called every `STAY_SECONDS`: it looks once a second, and less often for an agent that is away.
        """
        now = time.monotonic()
        if not self._rides or now < self._next_look:
            return
        before = self._line
        try:
            self._present()
        except BlockingIOError:
            pass
        except OSError:
            self._hang_up()
        if before is not None and self._line is before:
            self._pause, self._next_look = _FIRST_PAUSE_SECONDS, now + _LOOK_SECONDS
        else:
            self._next_look = now + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)

    @override
    def progress(self, completed: int, total: int, tokens: int) -> None:
        """Tells the agent, if it has not heard of it for a while or the job is done; never waits."""
        now = time.monotonic()
        if now < self._next and completed != total:
            return
        self._next = now + _PROGRESS_SECONDS
        report = JobProgress(completed=completed, total=total, tokens=tokens).model_dump_json(by_alias=True).encode()
        try:
            send(self._present(), report)
        except BlockingIOError:
            pass
        except OSError:
            self._hang_up()

    def close(self) -> None:
        """Hangs up."""
        self._rides = False
        self._hang_up()

    def _hang_up(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    def _connected(self, hello: JobHello) -> socket.socket:
        """Raises `OSError`."""
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.setblocking(False)
        self._line.connect(self._path)
        send(self._line, hello.model_dump_json(by_alias=True).encode())
        return self._line

    def _present(self) -> socket.socket:
        """The connection, a new one where the agent has hung up. Raises `OSError`."""
        if self._line is not None:
            try:
                _hear_out(self._line)
            except OSError:
                self._hang_up()
        return self._line or self._connected(JobHello(pair=False))


def _hear_out(line: socket.socket) -> None:
    """Takes what was said: a welcome without a pair says nothing. Raises `OSError`, also where the agent hung up."""
    with contextlib.suppress(BlockingIOError):
        while (message := receive(line, LONGEST_MESSAGE)) is not None:
            close_all(message.descriptors)
        raise ConnectionResetError


@functools.cache
def ride_link() -> RideLink | None:
    """The link of this job; None: it does not ride."""
    path = os.environ.get(RIDE_SOCKET_ENV)
    return RideLink(path) if path else None

"""The engine's connection to the agent of its device, through agents that come and go."""

import selectors
import socket
import time
from collections.abc import Callable

from pydantic import TypeAdapter, ValidationError

from rowen.crds.ride.messages import (
    LONGEST_MESSAGE,
    RIDE_VERSION,
    EngineHello,
    EngineState,
    Guest,
    Leaver,
    Welcome,
)
from rowen.runtime.coserve.seat.disposal import Disposal
from rowen.runtime.coserve.wire.line import receive, send
from rowen.runtime.log import get_logger

log = get_logger()

_FIRST_DELAY_SECONDS, _LONGEST_DELAY_SECONDS = 0.1, 5.0
_STATE_SECONDS = 1.0
"""Between two states."""
_FROM_AGENT: TypeAdapter[Guest | Leaver] = TypeAdapter(Guest | Leaver)


class AgentLine:
    """Connects when it is time to, and again. No method blocks or raises."""

    def __init__(
        self,
        path: str,
        selector: selectors.BaseSelector,
        disposal: Disposal,
        receive_guest: Callable[[socket.socket, str], None],
        dismiss: Callable[[str], None],
    ) -> None:
        """`receive_guest` gets a guest's line and its pod, `dismiss` a pod whose guest is to go.

        In the selector it stands with a function of the events that came, as everything there.
        """
        self._path = path
        self._selector = selector
        self._disposal = disposal
        self._receive_guest = receive_guest
        self._dismiss = dismiss
        self._line: socket.socket | None = None
        self._next = 0.0
        """When to try again, or to say the state again; seconds, monotonic."""
        self._delay = _FIRST_DELAY_SECONDS
        self._told: EngineState | None = None
        self._refusal: str | None = None
        """Why the agent did not want this engine, last, until it does."""

    def tick(self, state: EngineState, now: float) -> float:
        """Does what is due. Returns when something will be; seconds, monotonic."""
        if now >= self._next:
            self._next = now + _STATE_SECONDS
            if self._line is not None:
                # It has not hung up since the last state.
                self._accepted()
            line = self._line or self._connect()
            if line is None:
                self._back_off(now)
            elif state != self._told:
                self._tell(line, state, now)
        return self._next

    def close(self) -> None:
        """Hangs up."""
        if self._line is not None:
            self._selector.unregister(self._line)
            self._disposal.close([self._line.detach()])
            self._line = None

    def _back_off(self, now: float) -> None:
        self._next = now + self._delay
        self._delay = min(2 * self._delay, _LONGEST_DELAY_SECONDS)

    def _lose(self, now: float) -> None:
        """The agent has hung up, which it does again and again where it does not want this engine."""
        self.close()
        self._back_off(now)

    def _connect(self) -> socket.socket | None:
        try:
            line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            return None
        line.setblocking(False)
        try:
            line.connect(self._path)
            send(line, EngineHello().model_dump_json(by_alias=True).encode())
        except OSError:
            line.close()
            return None
        self._line, self._told = line, None
        self._selector.register(line, selectors.EVENT_READ, lambda _: self._hear(line))
        return line

    def _tell(self, line: socket.socket, state: EngineState, now: float) -> None:
        try:
            send(line, state.model_dump_json(by_alias=True).encode())
        except BlockingIOError:
            return
        except OSError:
            self._lose(now)
            return
        self._told = state

    def _hear(self, line: socket.socket) -> None:
        try:
            message = receive(line, LONGEST_MESSAGE)
        except BlockingIOError:
            return
        except OSError:
            message = None
        if message is None:
            self._lose(time.monotonic())
            return
        if (refusal := _refusal_in(message.data)) is not None:
            if refusal != self._refusal:
                log.warning("the agent does not want this engine", reason=refusal)
            self._refusal = refusal
            self._disposal.close(message.descriptors)
            self._lose(time.monotonic())
            return
        try:
            said = _FROM_AGENT.validate_json(message.data)
            wanted = 1 if isinstance(said, Guest) else 0
            if said.version != RIDE_VERSION or len(message.descriptors) != wanted:
                raise ValueError(f"version {said.version}, {len(message.descriptors)} descriptors")
            ends = [socket.socket(fileno=file) for file in message.descriptors]
        except (OSError, ValueError) as error:
            log.warning("the agent's message is passed over", error=str(error))
            self._disposal.close(message.descriptors)
            return
        self._accepted()
        if isinstance(said, Guest):
            self._receive_guest(ends[0], said.pod)
        else:
            self._dismiss(said.left)

    def _accepted(self) -> None:
        self._delay, self._refusal = _FIRST_DELAY_SECONDS, None


def _refusal_in(data: bytes) -> str | None:
    """Why the agent does not want this engine; None: it does not say so."""
    try:
        return Welcome.model_validate_json(data).reason
    except ValidationError:
        return None

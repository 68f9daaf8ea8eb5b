"""The messages at ride sockets (`rowen.crds.ride.messages`), as they come in from strangers and go out."""

import socket
from typing import TypeVar

from pydantic import ValidationError

from rowen.crds.base import ReadModel
from rowen.crds.ride.messages import LONGEST_MESSAGE, RIDE_VERSION, EngineHello, JobHello, Welcome
from rowen.node_agent.attach.entrance import receive_hello

_LONGEST_REASON = 256
_Message = TypeVar("_Message", bound=ReadModel)


def receive(connection: socket.socket) -> bytes:
    """The next message. Empty: the connection has ended, or descriptors came along. Raises `OSError`."""
    return receive_hello(connection, LONGEST_MESSAGE)


def read(kind: type[_Message], data: bytes) -> _Message:
    """Reads what was sent. Raises `ValueError` that says what was expected."""
    if len(data) > LONGEST_MESSAGE:
        raise ValueError(f"a message has at most {LONGEST_MESSAGE} bytes")
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(
            f"no {kind.__name__}: {f'{where}: ' if where else ''}{first['msg']}"[:_LONGEST_REASON]
        ) from None


def check_version(hello: EngineHello | JobHello) -> None:
    """Raises `ValueError` where it is of another one."""
    if hello.version != RIDE_VERSION:
        raise ValueError(f"this agent speaks version {RIDE_VERSION} of riding, and no other")


def say(connection: socket.socket, message: ReadModel, *files: socket.socket) -> None:
    """Sends a message, with sockets that go along. Raises `OSError` where it is not taken at once."""
    data = message.model_dump_json(by_alias=True, exclude_none=True).encode()
    socket.send_fds(connection, [data], [file.fileno() for file in files])


def refusal(reason: str) -> Welcome:
    """A welcome without an engine."""
    return Welcome(reason=reason[:_LONGEST_REASON])

"""The messages of an attachment (`native/rowen_abi.h`): a hello or a request comes in, a welcome goes out."""

import struct
from dataclasses import dataclass
from enum import IntEnum

from rowen.node_agent.devices.library import ABI_VERSION

MAGIC = 0x4C4C45484E574F52
REQUEST_MAGIC = 0x5453455152574F52
LONGEST_HELLO = 4096
"""Bytes that are read of a hello; a newer library's may be longer than this agent's."""
_REASON_LENGTH = 104
_HELLO = struct.Struct("<QIIQ")
_REQUEST = struct.Struct("<QIIQII")
_HOLDS_MEMORY = 1
_KEEPS_LEDGER = 1
_WELCOME = struct.Struct(f"<QIIQi{_REASON_LENGTH}s4x")


@dataclass(frozen=True)
class Hello:
    """What a process says of itself."""

    features: int
    """Bits, one each for what it knows besides the parts that never change."""

    @property
    def holds_memory(self) -> bool:
        """The process has an arena of the last agent, or of this one, and hands it over next."""
        return bool(self.features & _HOLDS_MEMORY)


class RequestKind(IntEnum):
    """What a member may ask for after its welcome."""

    MEMORY = 1
    """An arena."""
    HAND_OVER = 2
    """That the arena of the first two descriptors, which it has already, stays its own; a third one is its ledger."""


@dataclass(frozen=True)
class MemberRequest:
    """What a member asks for."""

    kind: RequestKind
    capacity: int
    """Handles; 0: as many as there are."""
    keeps_ledger: bool
    """Its library has a place for a ledger."""


def _check_head(what: str, data: bytes, head: struct.Struct, expected: int) -> None:
    if len(data) < head.size:
        raise ValueError(f"a {what} has at least {head.size} bytes, not {len(data)}")
    magic, abi, size = struct.unpack_from("<QII", data)
    if magic != expected:
        raise ValueError(f"no {what} of Rowen's library")
    if abi != ABI_VERSION:
        raise ValueError(f"the library speaks ABI {abi}, this agent {ABI_VERSION}")
    if size != len(data):
        raise ValueError(f"the {what} says that it has {size} bytes, not {len(data)}")


def read_request(data: bytes) -> MemberRequest:
    """Reads what a member has sent. Raises `ValueError` that says what was expected."""
    _check_head("request", data, _REQUEST, REQUEST_MAGIC)
    *_, features, kind, capacity = _REQUEST.unpack_from(data)
    if kind not in list(RequestKind):
        raise ValueError(f"this agent knows no request of kind {kind}")
    return MemberRequest(RequestKind(kind), capacity, bool(features & _KEEPS_LEDGER))


def read_hello(data: bytes) -> Hello:
    """Reads what a stranger has sent. Raises `ValueError` that says what was expected."""
    _check_head("hello", data, _HELLO, MAGIC)
    *_, features = _HELLO.unpack_from(data)
    return Hello(features)


def welcome(error: int = 0, reason: str = "") -> bytes:
    """The answer: 0 with the files, or an error number (positive) with a reason for people."""
    text = reason.encode("utf-8", "replace")[: _REASON_LENGTH - 1]
    return _WELCOME.pack(MAGIC, ABI_VERSION, _WELCOME.size, 0, -error, text)

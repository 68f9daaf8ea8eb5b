"""The header of a safetensors file: its tensors' places and its metadata."""

import json
from io import BytesIO
from typing import Any, BinaryIO

_LENGTH_BYTES = 8
_LONGEST_BYTES = 100 * 2**20
"""The format allows no more."""


def read_header(stream: BinaryIO) -> tuple[dict[str, Any], int]:
    """The header, and where the tensors' data begins. Raises `ValueError` for any other file."""
    length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
    try:
        header = json.loads(stream.read(length)) if length <= _LONGEST_BYTES else None
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise ValueError("no safetensors header")
    return header, _LENGTH_BYTES + length


def header_of(data: bytes) -> dict[str, Any]:
    """The header of a file that is in memory. Raises `ValueError` for any other one."""
    return read_header(BytesIO(data))[0]


def add_metadata(data: bytes, key: str, value: str) -> bytes:
    """The safetensors file with an entry more. The library itself writes several entries in an order by chance."""
    header, begin = read_header(BytesIO(data))
    header["__metadata__"] = header.get("__metadata__", {}) | {key: value}
    text = json.dumps(header, separators=(",", ":")).encode()
    # The tensors begin at a multiple of their alignment.
    text += b" " * (-len(text) % _LENGTH_BYTES)
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text + data[begin:]

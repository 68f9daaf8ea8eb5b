"""The header of a safetensors file: its tensors' places and its metadata."""

import json
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
        raise ValueError(f"{stream.name} has no safetensors header")
    return header, _LENGTH_BYTES + length

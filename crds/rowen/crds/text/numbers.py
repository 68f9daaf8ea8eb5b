"""Whole numbers as a short text: seven bits a byte, the lowest first, as base64.

All bytes of a number but its last have the eighth bit set, as in LEB128.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable


def joined(numbers: Iterable[int]) -> str:
    """The numbers, none below 0, as text."""
    return b64encode(b"".join(map(_bytes, numbers))).decode()


def apart(text: str) -> list[int]:
    """The numbers of a text. Raises `ValueError`: not base64, or the last number is cut off."""
    found, value, shift = [], 0, 0
    for byte in b64decode(text, validate=True):
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            found.append(value)
            value = shift = 0
    if shift:
        raise ValueError("the last number is cut off")
    return found


def _bytes(number: int) -> bytes:
    found = []
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])

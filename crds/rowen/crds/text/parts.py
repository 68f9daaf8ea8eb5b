"""Amounts as parts of a whole, in two bytes each: a few dozen of them as a short text.

**Error.** An amount is off by at most half a 65,535th of the whole.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence

_WHOLE = 2**16 - 1


def packed(amounts: Sequence[int], whole: int) -> str:
    """As base64, two bytes each, the lower one first. Amounts beyond 0 or `whole` count as these; `whole` > 0."""
    parts = (min(_WHOLE, max(0, round(amount * _WHOLE / whole))) for amount in amounts)
    return b64encode(b"".join(part.to_bytes(2, "little") for part in parts)).decode()


def unpacked(text: str, whole: int) -> list[int]:
    """The amounts again. Raises `ValueError`: not base64, or no whole number of parts."""
    data = b64decode(text, validate=True)
    if not data or len(data) % 2:
        raise ValueError(f"{len(data)} bytes are no parts of two bytes each")
    return [round(int.from_bytes(data[at : at + 2], "little") * whole / _WHOLE) for at in range(0, len(data), 2)]


def checked(text: str) -> str:
    """The text itself, where it is one. Raises `ValueError`."""
    unpacked(text, _WHOLE)
    return text

"""Lines of a user's file, of which none is so long that it fills the memory."""

from collections.abc import Iterator
from typing import BinaryIO

from rowen.crds.base import quantity_text

LONGEST_LINE_BYTES = 64 * 2**20
"""Of a line with its newline. Images in it have room; the rest of a longer one is passed over unread."""
_PIECE_BYTES = 2**20


def read_lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Offset and content of each line, the beginning of one that is too long. Raises `OSError`."""
    offset = 0
    while data := read_line(stream):
        yield offset, data
        offset += len(data)
        piece = data
        while is_too_long(data) and piece and not piece.endswith(b"\n"):
            piece = stream.readline(_PIECE_BYTES)
            offset += len(piece)


def read_line(stream: BinaryIO) -> bytes:
    """The line that begins here, or the beginning of one that is too long. Raises `OSError`."""
    return stream.readline(LONGEST_LINE_BYTES + 1)


def is_too_long(data: bytes) -> bool:
    """Whether it is the beginning of a line that is too long."""
    return len(data) > LONGEST_LINE_BYTES


def too_long() -> str:
    """What is said of such a line."""
    return f"longer than {quantity_text(LONGEST_LINE_BYTES)}"

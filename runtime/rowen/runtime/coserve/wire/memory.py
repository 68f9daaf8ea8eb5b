"""Memory that goes from one process to another: sealed, so that nothing of it changes under who reads it."""

import fcntl
import mmap
import os
from collections.abc import Iterable
from typing import Any

GIVEN = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
"""What a job's memory has to have before the engine looks at it."""
LENT = fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
"""What the engine's has: it can take the memory back, whoever still holds the descriptor, and none can be added."""

_BLOCK_BYTES = 512


def written(name: str, pieces: Iterable[Any], seals: int) -> int:
    """A new descriptor of memory with the pieces (contiguous buffers) in it, sealed. Raises `OSError`."""
    file = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        for piece in pieces:
            rest = memoryview(piece).cast("B")
            while rest:
                rest = rest[os.write(file, rest) :]
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
    except BaseException:
        os.close(file)
        raise
    return file


def mapped(file: int, size: int) -> mmap.mmap:
    """A stranger's memory, as it is and stays. Raises `ValueError` that says what is wrong with it.

    The descriptor can be closed. Who writes into the mapping, writes into a copy.
    """
    try:
        # Comes first: it asks no file system, which could make this thread wait.
        seals = fcntl.fcntl(file, fcntl.F_GET_SEALS)
    except OSError as error:
        raise ValueError("the descriptor is of no memory") from error
    if seals & GIVEN != GIVEN:
        raise ValueError("the memory is not sealed")
    status = os.fstat(file)
    if status.st_size != size:
        raise ValueError(f"the memory has {status.st_size} bytes, not {size}")
    # To read where nothing was written takes memory, and it would be the engine's. Blocks may be behind the end, and of
    # huge pages no hole is told.
    if status.st_blocks * _BLOCK_BYTES < size or _first_hole(file) != size:
        raise ValueError("the memory has holes")
    try:
        return mmap.mmap(file, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    except (OSError, ValueError) as error:
        raise ValueError(f"the memory cannot be mapped: {error}") from error


def _first_hole(file: int) -> int:
    try:
        return os.lseek(file, 0, os.SEEK_HOLE)
    except OSError as error:
        raise ValueError(f"the memory cannot be looked through: {error.strerror}") from error


def read(file: int, buffer: Any) -> None:
    """Fills the buffer from the beginning of the memory. Raises `EOFError` when it has been taken back."""
    rest, at = memoryview(buffer).cast("B"), 0
    while at < len(rest):
        count = os.preadv(file, [rest[at:]], at)
        if count == 0:
            raise EOFError
        at += count


def take_back(file: int) -> None:
    """Frees lent memory, and closes it."""
    try:
        os.ftruncate(file, 0)
    finally:
        os.close(file)

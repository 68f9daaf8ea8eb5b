"""The agent's choice of handles (node_agent/native/memory/ledger/selection.h), as ctypes calls it."""

import ctypes
import os
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rowen.node_agent.devices.library import agent_library


class _Choice(ctypes.Structure):
    """`struct rowen_choice`."""

    _fields_ = [
        ("tokens", ctypes.c_uint64),
        ("owners", ctypes.c_uint32),
        ("unknown", ctypes.c_uint32),
        ("free", ctypes.c_uint32),
        ("chunks", ctypes.c_uint32),
    ]


@dataclass(frozen=True)
class Choice:
    """Chosen handles, and what their owners lose."""

    handles: list[int]
    tokens: int
    owners: int
    unknown: int
    free: int
    """Eligible handles that cost nothing, chosen or not."""


def _library() -> ctypes.CDLL:
    library = agent_library()
    u32, i32, pointer = ctypes.c_uint32, ctypes.c_int32, ctypes.c_void_p
    library.rowen_ledger_make.argtypes, library.rowen_ledger_make.restype = [u32, u32], i32
    library.rowen_selection_open.argtypes = [i32, u32, u32, ctypes.POINTER(i32)]
    library.rowen_selection_open.restype = pointer
    library.rowen_selection_close.argtypes, library.rowen_selection_close.restype = [pointer], None
    library.rowen_ledger_choose.argtypes = [pointer, pointer, u32, u32, pointer, ctypes.POINTER(_Choice)]
    library.rowen_ledger_choose.restype = u32
    return library


@contextmanager
def ledger_file(capacity: int, owners: int) -> Iterator[int]:
    """The descriptor of a new ledger. Raises `OSError`."""
    descriptor = _library().rowen_ledger_make(capacity, owners)
    if descriptor < 0:
        raise OSError(-descriptor, f"cannot make a ledger: {os.strerror(-descriptor)}")
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class Chooser:
    """Chooses handles by a ledger."""

    def __init__(self, descriptor: int, capacity: int, owners: int) -> None:
        """Raises `OSError` when the file is not such a ledger."""
        self._library = _library()
        error = ctypes.c_int32()
        self._selection = self._library.rowen_selection_open(descriptor, capacity, owners, ctypes.byref(error))
        if self._selection is None:
            raise OSError(-error.value, f"cannot choose by this ledger: {os.strerror(-error.value)}")

    def choose(self, eligible: Sequence[int], wanted: int) -> Choice:
        """Chooses among the eligible handles, those listed first among equals."""
        return self.timed(eligible, wanted)[0]

    def timed(self, eligible: Sequence[int], wanted: int) -> tuple[Choice, float, float]:
        """The choice, and what it took: seconds, and seconds of this thread on a processor."""
        listed, chosen, choice = array("I", eligible), array("I", bytes(4 * len(eligible))), _Choice()
        arguments = listed.buffer_info()[0], len(listed), wanted, chosen.buffer_info()[0], ctypes.byref(choice)
        begin, begin_busy = time.perf_counter(), time.thread_time()
        count = self._library.rowen_ledger_choose(self._selection, *arguments)
        busy, seconds = time.thread_time() - begin_busy, time.perf_counter() - begin
        return Choice(chosen[:count].tolist(), choice.tokens, choice.owners, choice.unknown, choice.free), seconds, busy

    def close(self) -> None:
        """Ends it; the ledger's file stays open."""
        self._library.rowen_selection_close(self._selection)

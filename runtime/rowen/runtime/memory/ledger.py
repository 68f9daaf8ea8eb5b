"""What a process tells the device's owner about its handles, so that the least is lost when some are taken away."""

import ctypes
import heapq
import os
from array import array
from collections.abc import Hashable, Iterable, Mapping
from typing import Protocol

from typing_extensions import override

_HANDLE, _U32, _I32 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int32
# Address of an `array`: making one takes a tenth of the time that a ctypes array of as many numbers takes.
_LIST = ctypes.c_void_p


class Ledger(Protocol):
    """Who has something in which handles, and what each of them would have to do again.

    An owner is what loses its work when one of its handles is taken: a request, a layer. Any hashable value names it.
    It is there from the first call that names it until it is dropped. What the ledger says may be out of date at any
    moment: then the choice of handles is worse, and nothing else.

    No call waits for anybody, and none fails because there is too much to tell: what finds no place counts as the
    dearest. One thread at a time may call.
    """

    def charge(self, tokens: Mapping[Hashable, int]) -> None:
        """Says how many tokens each of these owners would have to compute again: of a request, its prompt and output.

        Until then an owner costs nothing. Raises `ValueError` for tokens below 0 or above 2**32 - 1.
        """

    def add(self, owner: Hashable, handles: Iterable[int]) -> None:
        """The owner has something in these handles; it may be said twice. Several owners may share a handle.

        Raises `ValueError` for a handle outside the range; then none is added.
        """

    def remove(self, owner: Hashable, handles: Iterable[int]) -> None:
        """The owner has nothing left in these handles; those that it did not have are left out.

        Raises `ValueError` for a handle outside the range; then none is removed.
        """

    def drop(self, owner: Hashable) -> None:
        """The owner is gone, with all of its handles; one that never was there may be dropped too."""


class NativeLedger(Ledger):
    """The ledger of the file that the agent has made for this process. It lives as long as the process.

    In a child after `fork()` the calls do nothing.
    """

    def __init__(self, library: ctypes.CDLL, descriptor: int) -> None:
        """Maps the file and empties it; the caller may close it then. Raises `OSError` when it is not a ledger."""
        # They keep the GIL: each takes some microseconds, handing the GIL over may take milliseconds.
        short = ctypes.PYFUNCTYPE
        attach = short(_HANDLE, _I32, ctypes.POINTER(_I32))(("rowen_ledger_attach", library))
        capacity = short(_U32, _HANDLE)(("rowen_ledger_capacity", library))
        self._set = short(None, _HANDLE, _LIST, _LIST, _U32)(("rowen_ledger_set", library))
        self._add = short(_I32, _HANDLE, _U32, _LIST, _U32)(("rowen_ledger_add", library))
        self._remove = short(None, _HANDLE, _U32, _LIST, _U32)(("rowen_ledger_remove", library))
        self._drop = short(None, _HANDLE, _U32)(("rowen_ledger_drop", library))
        error = _I32()
        self._handle = attach(descriptor, ctypes.byref(error))
        if not self._handle:
            raise OSError(-error.value, f"cannot use the ledger: {os.strerror(-error.value)}")
        self._capacity = int(capacity(self._handle))
        self._numbers: dict[Hashable, int] = {}
        # The table has room for the lowest numbers. Those below the largest so far that nobody has, as a heap.
        self._unused: list[int] = []

    @override
    def charge(self, tokens: Mapping[Hashable, int]) -> None:
        try:
            costs = array("I", tokens.values())
        except OverflowError:
            wrong = {owner: cost for owner, cost in tokens.items() if not 0 <= cost < 2**32}
            raise ValueError(f"tokens must be from 0 to {2**32 - 1}: {wrong}") from None
        try:
            numbers = array("I", map(self._numbers.__getitem__, tokens))
        except KeyError:
            numbers = array("I", map(self._number, tokens))
        self._set(self._handle, numbers.buffer_info()[0], costs.buffer_info()[0], len(numbers))

    @override
    def add(self, owner: Hashable, handles: Iterable[int]) -> None:
        these = self._checked(handles)
        if self._add(self._handle, self._number(owner), these.buffer_info()[0], len(these)):
            raise MemoryError(f"no memory for the ledger to note the handles of {owner!r}")

    @override
    def remove(self, owner: Hashable, handles: Iterable[int]) -> None:
        these = self._checked(handles)
        number = self._numbers.get(owner)
        if number is not None:
            self._remove(self._handle, number, these.buffer_info()[0], len(these))

    @override
    def drop(self, owner: Hashable) -> None:
        number = self._numbers.pop(owner, None)
        if number is not None:
            self._drop(self._handle, number)
            heapq.heappush(self._unused, number)

    def _number(self, owner: Hashable) -> int:
        number = self._numbers.get(owner)
        if number is None:
            number = heapq.heappop(self._unused) if self._unused else len(self._numbers)
            self._numbers[owner] = number
        return number

    def _checked(self, handles: Iterable[int]) -> "array[int]":
        these = list(handles)
        if these and not 0 <= min(these) <= max(these) < self._capacity:
            raise ValueError(f"handles go from 0 to {self._capacity - 1}, not from {min(these)} to {max(these)}")
        return array("I", these)

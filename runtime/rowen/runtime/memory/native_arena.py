"""`Arena` over the native library: memory of the device's pool, shared with the agent."""

import ctypes
import errno
import os
import time
from collections.abc import Sequence

from typing_extensions import override

from rowen.runtime.memory.arena import Arena

_WAIT_SECONDS = 0.5
"""Of one native wait, so that a signal's Python handler does not wait for longer."""

_HANDLE, _U32, _U64, _I32 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32
_LIST = ctypes.POINTER(ctypes.c_uint32)


class NativeArena(Arena):
    """The arena of the two files that the agent has made for this process. It lives as long as the process.

    A child after `fork()` has no part in it: there the buffer's addresses are not mapped, and calls raise
    `PermissionError`.
    """

    def __init__(self, library: ctypes.CDLL, arena: int, memory: int) -> None:
        """Opens the two descriptors, which the caller may close afterwards.

        Raises `OSError`: `PermissionError` when the files are not sealed, EPROTO when they are of another layout.
        """
        opened = ctypes.CFUNCTYPE(_HANDLE, _I32, _I32, ctypes.POINTER(_I32))(("rowen_arena_open", library))
        error = _I32()
        handle = opened(arena, memory, ctypes.byref(error))
        if not handle:
            raise OSError(-error.value, f"cannot open the arena: {os.strerror(-error.value)}")
        self._bind(library, handle)

    @classmethod
    def opened(cls, library: ctypes.CDLL, handle: int) -> "NativeArena":
        """The arena that the library has opened itself."""
        made = cls.__new__(cls)
        made._bind(library, handle)
        return made

    def _bind(self, library: ctypes.CDLL, handle: int) -> None:
        # Those that wait for the kernel let other threads run; the rest take well under a microsecond.
        long, short = ctypes.CFUNCTYPE, ctypes.PYFUNCTYPE
        self._map = long(_I32, _HANDLE, _LIST, _U32)(("rowen_arena_map", library))
        self._unmap = long(_I32, _HANDLE, _LIST, _U32)(("rowen_arena_unmap", library))
        self._wait = long(ctypes.c_bool, _HANDLE, _U32, _U64)(("rowen_arena_wait", library))
        self._lost = long(_I32, _HANDLE, _LIST)(("rowen_arena_lost", library))
        self._read_grant = short(_U32, _HANDLE)(("rowen_arena_grant", library))
        self._read_taken = short(_U32, _HANDLE)(("rowen_arena_taken", library))
        self._want = short(None, _HANDLE, _U32)(("rowen_arena_want", library))
        self._use = short(None, _HANDLE, _U32)(("rowen_arena_use", library))
        self._handle = handle
        self.handle_bytes = short(_U64, _HANDLE)(("rowen_arena_handle_bytes", library))(self._handle)
        self.capacity = short(_U32, _HANDLE)(("rowen_arena_capacity", library))(self._handle)
        base = short(_HANDLE, _HANDLE)(("rowen_arena_base", library))(self._handle)
        whole = (ctypes.c_ubyte * (self.capacity * self.handle_bytes)).from_address(base)
        self._buffer = memoryview(whole).cast("B")
        self._told = (_U32 * self.capacity)()

    @property
    @override
    def buffer(self) -> memoryview:
        return self._buffer

    @property
    @override
    def grant(self) -> int:
        return int(self._read_grant(self._handle))

    @property
    @override
    def taken(self) -> int:
        return int(self._read_taken(self._handle))

    @override
    def map(self, handles: Sequence[int]) -> int:
        return self._checked(
            self._map(self._handle, self._numbers(handles), len(handles)), f"outside the arena or mapped: {handles}"
        )

    @override
    def unmap(self, handles: Sequence[int]) -> None:
        self._checked(self._unmap(self._handle, self._numbers(handles), len(handles)), f"never mapped: {handles}")

    @override
    def lost(self) -> list[int]:
        count = self._checked(self._lost(self._handle, self._told), "lost")
        return [int(handle) for handle in self._told[:count]]

    @override
    def want(self, handles: int) -> None:
        self._want(self._handle, handles)

    @override
    def use(self, handles: int) -> None:
        self._use(self._handle, handles)

    @override
    def wait(self, grant: int, timeout_seconds: float) -> bool:
        end = time.monotonic() + timeout_seconds
        while True:
            left = max(0.0, end - time.monotonic())
            if self._wait(self._handle, grant, round(min(left, _WAIT_SECONDS) * 1e9)):
                return True
            if time.monotonic() >= end:
                return False

    def _numbers(self, handles: Sequence[int]) -> "ctypes.Array[ctypes.c_uint32]":
        # ctypes would cut a number that does not fit down to one that does.
        if any(not 0 <= handle < self.capacity for handle in handles):
            raise ValueError(f"outside the arena: {handles}")
        return (_U32 * len(handles))(*handles)

    @staticmethod
    def _checked(result: int, mistake: str) -> int:
        if result == -errno.EINVAL:
            raise ValueError(mistake)
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        return result

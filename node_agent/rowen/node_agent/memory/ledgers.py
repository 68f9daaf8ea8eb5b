"""The ledgers of a pool's offline members, by which it chooses what they lose (native: memory/ledger/ledgers.h)."""

import ctypes
import errno
import os

from rowen.node_agent.devices.library import agent_library
from rowen.node_agent.memory.pool import Pool

OWNERS = 1024
"""Requests or layers of one member that its ledger has places for."""

_POINTER, _U32, _I32 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int32


class Ledgers:
    """A pool chooses by these as soon as they are made, until it ends. Any thread may call."""

    def __init__(self, pool: Pool) -> None:
        """Raises `MemoryError`."""
        library = agent_library()
        library.rowen_ledgers_open.restype, library.rowen_ledgers_open.argtypes = _POINTER, []
        library.rowen_ledgers_close.restype, library.rowen_ledgers_close.argtypes = None, [_POINTER]
        library.rowen_ledgers_admit.restype = _I32
        library.rowen_ledgers_admit.argtypes = [_POINTER, _U32, _U32, _U32]
        library.rowen_ledgers_adopt.restype = _I32
        library.rowen_ledgers_adopt.argtypes = [_POINTER, _U32, _U32, _U32, _I32]
        library.rowen_ledgers_dismiss.restype, library.rowen_ledgers_dismiss.argtypes = _I32, [_POINTER, _U32]
        library.rowen_ledgers_tokens.restype, library.rowen_ledgers_tokens.argtypes = ctypes.c_uint64, [_POINTER]
        library.rowen_pool_choose.restype = None
        self._library = library
        self._ledgers = library.rowen_ledgers_open()
        if not self._ledgers:
            raise MemoryError("no memory for the ledgers of a pool")
        chooser = ctypes.cast(library.rowen_choose_cheapest, _POINTER)
        library.rowen_pool_choose(_POINTER(pool.handle), chooser, _POINTER(self._ledgers))

    def admit(self, member: int, capacity: int) -> int:
        """Makes the ledger of an offline member of so many handles; returns its descriptor, which stays the ledgers'.

        The member's process gets a duplicate. Raises `ValueError` for a member that has one, or a capacity that cannot
        be, `OSError` when there are too many or there is no memory.
        """
        return self._checked(self._library.rowen_ledgers_admit(self._ledgers, member, capacity, OWNERS), member)

    def adopt(self, member: int, capacity: int, descriptor: int) -> None:
        """Goes on with the ledger that a process has of the last agent. The descriptor stays the caller's.

        Raises `ValueError` for a member that has a ledger, or a capacity that cannot be, and `OSError`: EPROTO when it
        is not a sealed ledger of that shape.
        """
        found = self._library.rowen_ledgers_adopt(self._ledgers, member, capacity, OWNERS, descriptor)
        self._checked(found, member)

    def dismiss(self, member: int) -> None:
        """For a member whose process is gone. Raises `KeyError` when it has no ledger."""
        if self._library.rowen_ledgers_dismiss(self._ledgers, member):
            raise KeyError(member)

    def tokens(self) -> int:
        """Tokens that the members' ledgers gave as lost with all that was chosen so far; a request may count again."""
        return int(self._library.rowen_ledgers_tokens(self._ledgers))

    def close(self) -> None:
        """After the pool, whose rounds read them."""
        if self._ledgers:
            self._library.rowen_ledgers_close(self._ledgers)
            self._ledgers = None

    @staticmethod
    def _checked(result: int, member: int) -> int:
        if result in (-errno.EEXIST, -errno.EINVAL):
            reason = "has a ledger already" if result == -errno.EEXIST else "has a capacity that no ledger can have"
            raise ValueError(f"member {member} {reason}")
        if result < 0:
            raise OSError(-result, f"no ledger for member {member}: {os.strerror(-result)}")
        return result

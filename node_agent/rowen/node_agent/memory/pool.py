"""A device's pool of memory: who may hold how many handles of it (native: memory/pool/pool.h)."""

import ctypes
import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rowen.node_agent.devices.library import agent_library
from rowen.node_agent.memory.pool_status import Kind, MemberStatus, PoolStatus

HANDLE_BYTES = 2 << 20
MEMBERS = 256
MOST_HANDLES = 1 << 20
"""Of one pool."""

_U32, _U64, _I32 = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32


@dataclass(frozen=True)
class Admission:
    """A new member. Its descriptors are the pool's; the process gets duplicates."""

    number: int
    arena: int
    memory: int


class _Member(ctypes.Structure):
    """`struct rowen_member_status`."""

    _fields_ = [
        ("member", _U32),
        ("kind", _U32),
        ("granted", _U32),
        ("owned", _U32),
        ("held", _U32),
        ("used", _U32),
        ("wanted", _U32),
        ("really", _U32),
        ("overdrawn", _U32),
        ("stubborn", _U32),
        ("target", _U32),
        ("pressures", _U32),
        ("capacity", _U32),
        ("bound", _U32),
        ("taken", _U64),
    ]


class _Status(ctypes.Structure):
    """`struct rowen_pool_status`."""

    _fields_ = [
        ("handle_bytes", _U64),
        ("page_bytes", _U64),
        ("reclaims", _U64),
        ("handles_reclaimed", _U64),
        ("handles_for_engines", _U64),
        ("total", _U32),
        ("free", _U32),
        ("deficit", _U32),
        ("members", _U32),
        ("fixed", _U32),
        ("engines_absent", _U32),
        ("member", _Member * MEMBERS),
    ]


def _member(found: _Member) -> MemberStatus:
    return MemberStatus(
        number=found.member,
        kind=Kind(found.kind),
        granted=found.granted,
        owned=found.owned,
        held=found.held,
        used=found.used,
        wanted=found.wanted,
        really_held=found.really,
        overdrawn=found.overdrawn,
        stubborn=found.stubborn,
        target=found.target,
        pressures=found.pressures,
        capacity=found.capacity,
        bound=found.bound,
        taken=found.taken,
    )


def _declare(library: ctypes.CDLL) -> None:
    pool, descriptor = ctypes.c_void_p, ctypes.POINTER(_I32)
    signatures: dict[str, tuple[object, list[object]]] = {
        "rowen_pool_open": (pool, [_U32, _U64, ctypes.c_bool, ctypes.POINTER(_I32)]),
        "rowen_pool_close": (None, [pool]),
        "rowen_pool_admit": (_I32, [pool, _U32, _U32, descriptor, descriptor]),
        "rowen_pool_keep": (_I32, [pool, ctypes.c_char_p]),
        "rowen_pool_adopt": (_I32, [pool, _U32, _I32, _I32, _I32]),
        "rowen_pool_name": (_I32, [pool, _U32, _I32]),
        "rowen_pool_forget": (None, [pool, _I32]),
        "rowen_pool_dismiss": (_I32, [pool, _U32]),
        "rowen_pool_demand": (_I32, [pool, _U32, _U32, _U32, _U32, ctypes.c_double]),
        "rowen_pool_bound": (_I32, [pool, _U32, _U32]),
        "rowen_pool_fix": (None, [pool, _U32]),
        "rowen_pool_share": (_I32, [pool, _U32, _U32, _U32]),
        "rowen_pool_grant": (_I32, [pool, _U32, _U32]),
        "rowen_pool_reclaim": (_I32, [pool, _U32, ctypes.POINTER(_U32), _U32]),
        "rowen_pool_settle": (None, [pool]),
        "rowen_pool_serve": (_U32, [pool, ctypes.c_bool, _U64]),
        "rowen_pool_status": (None, [pool, ctypes.POINTER(_Status)]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


def _checked(result: int, what: str) -> int:
    """The result of a call. Raises `ValueError`, `KeyError` or `OSError` for an error in it."""
    if result >= 0:
        return result
    if result == -errno.EINVAL:
        raise ValueError(what)
    if result == -errno.ENOENT:
        raise KeyError(what)
    raise OSError(-result, f"{what}: {os.strerror(-result)}")


class Pool:
    """A device's handles. Any thread may call; calls that name a member raise `KeyError` when it is not there."""

    def __init__(self, handles: int, handle_bytes: int = HANDLE_BYTES, *, huge: bool = False) -> None:
        """`huge`: of the kernel's reserved huge pages, if it has enough of them for all handles.

        Raises `ValueError` for a number or size of handles that cannot be, `OSError` for any other failure.
        """
        self._library = agent_library()
        self.handle_bytes = handle_bytes
        _declare(self._library)
        error = _I32()
        self.handle = self._library.rowen_pool_open(handles, handle_bytes, huge, ctypes.byref(error))
        if not self.handle:
            _checked(error.value, f"a pool of {handles} handles of {handle_bytes} bytes")

    def close(self) -> None:
        """Ends the pool; what members hold stays theirs until they end."""
        if self.handle:
            self._library.rowen_pool_close(self.handle)
            self.handle = None

    def admit(self, kind: Kind, capacity: int) -> Admission:
        """A new member with a grant of 0, which never holds more than `capacity`.

        Raises `ValueError` for a capacity that cannot be, `OSError` when there are too many members or no memory.
        """
        arena, memory = _I32(), _I32()
        number = self._library.rowen_pool_admit(self.handle, kind, capacity, ctypes.byref(arena), ctypes.byref(memory))
        return Admission(_checked(number, f"a member of {capacity} handles"), arena.value, memory.value)

    def keep(self, path: Path) -> None:
        """Writes down in a file who owns how much; before there are members. Raises `OSError`.

        What the file says of processes that still run is not free until each has handed over its arena.
        """
        error = self._library.rowen_pool_keep(self.handle, os.fsencode(path))
        if error:
            raise OSError(-error, os.strerror(-error), str(path))

    def adopt(self, kind: Kind, pid: int, arena: int, memory: int) -> int:
        """Goes on with the arena that a process has of the last agent's pool; returns the member's number.

        Of an arena that is a member's already, that one's. The descriptors stay the caller's. Raises `OSError`:
        `PermissionError` when they are not sealed as this agent seals them, EPROTO when sizes or layout are others.
        """
        number = self._library.rowen_pool_adopt(self.handle, kind, pid, arena, memory)
        return _checked(number, f"the arena of process {pid}")

    def name(self, member: int, pid: int) -> None:
        """Says whose member it is; before its process gets the descriptors. Raises `OSError`."""
        _checked(self._library.rowen_pool_name(self.handle, member, pid), f"member {member}")

    def forget(self, pid: int) -> None:
        """The process has nothing of the last agent's pool any more: it runs another program."""
        self._library.rowen_pool_forget(self.handle, pid)

    def dismiss(self, member: int) -> None:
        """Forgets a member whose process has ended, and frees what it held."""
        _checked(self._library.rowen_pool_dismiss(self.handle, member), f"member {member}")

    def demand(self, member: int, *, pressures: int, target: int, growth: int, threshold: float) -> bool:
        """Says what an online member shall own, and from which used part of its grant on it shall own `growth`.

        False, and nothing has changed, when its target was raised since the caller saw `pressures`. Raises `ValueError`
        for a member that is not online, or values beyond its capacity, or a threshold outside (0, 1].
        """
        result = self._library.rowen_pool_demand(self.handle, member, pressures, target, growth, threshold)
        if result == -errno.EAGAIN:
            return False
        _checked(result, f"target {target}, growth {growth}, threshold {threshold} of online member {member}")
        return True

    def bound(self, member: int, handles: int) -> None:
        """Says what an online member may own at most, whatever it wants. Raises `ValueError` beyond its capacity."""
        _checked(self._library.rowen_pool_bound(self.handle, member, handles), f"bound {handles} of {member}")

    def fix(self, handles: int) -> None:
        """Keeps so many handles, or all, from every member, as soon as they can be had: memory used beside the pool."""
        self._library.rowen_pool_fix(self.handle, handles)

    def share(self, member: int, request: int, limit: int) -> None:
        """Says what an offline member may own: kept for it, and at most.

        Raises `ValueError` for a member that is not offline, or a request above the limit, or that above its capacity.
        """
        result = self._library.rowen_pool_share(self.handle, member, request, limit)
        _checked(result, f"request {request}, limit {limit} of offline member {member}")

    def grant(self, member: int, handles: int) -> int:
        """Sets a grant by hand, as far as free handles allow; returns it. Raises `ValueError` beyond its capacity."""
        return _checked(self._library.rowen_pool_grant(self.handle, member, handles), f"grant {handles} of {member}")

    def reclaim(self, member: int, handles: Sequence[int]) -> int:
        """Takes those of the handles that the member holds; every thread of it must stand still. Returns how many."""
        chosen = (_U32 * len(handles))(*handles)
        result = self._library.rowen_pool_reclaim(self.handle, member, chosen, len(handles))
        return _checked(result, f"member {member}")

    def settle(self) -> None:
        """Frees taken handles once more, just before the offline members, which still stand still, go on."""
        self._library.rowen_pool_settle(self.handle)

    def serve(self, now: float, *, offline_stopped: bool) -> int:
        """One round, online first; returns what online members lack. `now` in seconds, monotonic clock.

        `offline_stopped`: every thread of every offline member stands still.
        """
        return int(self._library.rowen_pool_serve(self.handle, offline_stopped, round(now * 1e9)))

    def status(self) -> PoolStatus:
        """The pool now."""
        found = _Status()
        self._library.rowen_pool_status(self.handle, ctypes.byref(found))
        return PoolStatus(
            handle_bytes=found.handle_bytes,
            page_bytes=found.page_bytes,
            total=found.total,
            free=found.free,
            deficit=found.deficit,
            fixed=found.fixed,
            reclaims=found.reclaims,
            handles_reclaimed=found.handles_reclaimed,
            handles_for_engines=found.handles_for_engines,
            engines_absent=found.engines_absent,
            members=tuple(_member(found.member[i]) for i in range(found.members)),
        )

"""Rowen's native library as the runtime calls it. Outside a Rowen device every lookup gives None."""

import ctypes
import errno
import functools
import os
from dataclasses import dataclass
from typing import Protocol

from typing_extensions import override

from rowen.crds.names import ENGINE_SOCKET_ENV, LIBRARY_ENV, TENANT_SOCKETS_ENV
from rowen.runtime.log import get_logger
from rowen.runtime.memory.arena import Arena
from rowen.runtime.memory.ledger import Ledger, NativeLedger
from rowen.runtime.memory.native_arena import NativeArena

log = get_logger()


class Online(Protocol):
    """The online side of an engine's devices. No call blocks, none raises; without an agent none does anything yet."""

    def busy(self) -> None:
        """One more request is in flight; closes the gates at once."""

    def idle(self) -> None:
        """One request fewer is in flight."""

    def step(self, begin_ns: int, end_ns: int) -> None:
        """An engine step ran (CLOCK_MONOTONIC, nanoseconds)."""

    def composition(self, step_ns: int, decode_rows: int, prefill_tokens: int) -> None:
        """A step took so long (nanoseconds), and so many requests got a token in it, beside tokens of prompts."""

    def record(self, begin_ns: int, ttft_ns: int, tpot_ns: int, output_tokens: int, tenant_present: bool) -> None:
        """A request ends now; it began at `begin_ns` (CLOCK_MONOTONIC). The agent counts the stops in between."""

    def share(self, tenths: int) -> None:
        """Offline work may have so many tenths of the devices, 9 at most, beside the requests that are in flight now.

        0: none. The next request ends it: to be said again in every step.
        """

    def granted(self) -> int:
        """Tenths of the devices that offline work may use now; 10: all of them, 0: it stands still."""

    def leased(self) -> bool:
        """Whether the lease of each of the devices runs; without it offline work stands still, wherever it is computed.

        Always with a library of an earlier release, which cannot tell.
        """

    def tenants(self) -> int:
        """Offline processes on the devices now; one on several counts with each."""

    def pin(self) -> None:
        """Keeps this process on the devices' cpus, from when they are all known."""

    def fail(self) -> None:
        """What this process tells cannot be relied on from now on: nothing is harvested while it lives."""


class Tenant(Protocol):
    """The offline side of a device. No call raises."""

    def progress(self, completed: int, total: int, tokens: int) -> None:
        """Units done of all units, and the tokens that this process has worked through."""


class NativeOnline(Online):
    """`Online` over the C library, which attaches to the agent as soon as there is one, and to each one after it."""

    def __init__(self, library_path: str, sockets: str) -> None:
        """`sockets`: the devices', separated by colons.

        Raises `OSError` or `AttributeError` when the library cannot be used.
        """
        # PyDLL keeps the GIL: the calls take well under a microsecond, handing the GIL over may take milliseconds.
        library = ctypes.PyDLL(library_path)
        self._attach = library.rowen_online_attach
        self._attach.argtypes, self._attach.restype = [ctypes.c_char_p], ctypes.c_int32
        self._busy = library.rowen_online_busy
        self._busy.argtypes, self._busy.restype = [], ctypes.c_int32
        self._idle = library.rowen_online_idle
        self._idle.argtypes, self._idle.restype = [], None
        self._step = library.rowen_online_step
        self._step.argtypes, self._step.restype = [ctypes.c_uint64, ctypes.c_uint64], None
        self._composition = library.rowen_online_composition
        self._composition.argtypes = [ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32]
        self._composition.restype = None
        self._record = library.rowen_online_record
        self._record.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32]
        self._record.restype = None
        # A library of an earlier release has no shares, as its gates are closed while requests are in flight, and tells
        # nothing of leases.
        self._share = getattr(library, "rowen_online_share", None)
        self._granted = getattr(library, "rowen_online_granted", None)
        self._leased = getattr(library, "rowen_online_leased", None)
        if self._share is not None:
            self._share.argtypes, self._share.restype = [ctypes.c_uint32], None
        if self._granted is not None:
            self._granted.argtypes, self._granted.restype = [], ctypes.c_uint32
        if self._leased is not None:
            self._leased.argtypes, self._leased.restype = [], ctypes.c_uint32
        self._tenants = library.rowen_online_tenants
        self._tenants.argtypes, self._tenants.restype = [], ctypes.c_uint32
        self._pin = library.rowen_online_pin
        self._pin.argtypes, self._pin.restype = [], ctypes.c_int32
        self._fail = library.rowen_online_fail
        self._fail.argtypes, self._fail.restype = [], None
        error = self._attach(os.fsencode(sockets))
        if error < 0:
            log.warning(
                "Rowen's agent does not answer yet: the engine serves without its device until it does",
                sockets=sockets,
                error=os.strerror(-error),
            )

    @override
    def busy(self) -> None:
        self._busy()

    @override
    def idle(self) -> None:
        self._idle()

    @override
    def step(self, begin_ns: int, end_ns: int) -> None:
        self._step(begin_ns, end_ns)

    @override
    def composition(self, step_ns: int, decode_rows: int, prefill_tokens: int) -> None:
        self._composition(step_ns, decode_rows, prefill_tokens)

    @override
    def record(self, begin_ns: int, ttft_ns: int, tpot_ns: int, output_tokens: int, tenant_present: bool) -> None:
        self._record(begin_ns, ttft_ns, tpot_ns, output_tokens, int(tenant_present))

    @override
    def share(self, tenths: int) -> None:
        if self._share is not None:
            self._share(tenths)

    @override
    def granted(self) -> int:
        return int(self._granted()) if self._granted is not None else 0

    @override
    def leased(self) -> bool:
        return self._leased is None or self._leased() != 0

    @override
    def tenants(self) -> int:
        return int(self._tenants())

    @override
    def pin(self) -> None:
        error = self._pin()
        if error < 0:
            log.warning("the engine could not be pinned to its devices", error=os.strerror(-error))

    @override
    def fail(self) -> None:
        self._fail()


class NativeTenant(Tenant):
    """`Tenant` over the library that the device plugin had preloaded."""

    def __init__(self) -> None:
        """Raises `AttributeError` when the library is not loaded."""
        self._progress = ctypes.PyDLL(None).rowen_tenant_progress
        self._progress.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64]
        self._progress.restype = None

    @override
    def progress(self, completed: int, total: int, tokens: int) -> None:
        self._progress(completed, total, tokens)


class NoTenant(Tenant):
    """A worker that runs alone, outside Rowen."""

    @override
    def progress(self, completed: int, total: int, tokens: int) -> None:
        pass


@functools.cache
def online() -> Online | None:
    """The devices of this engine, with or without an agent; None, said once in the log, where there is none.

    An engine without its device serves as before: a device without an attached engine is never harvested.
    """
    library, sockets = os.environ.get(LIBRARY_ENV), os.environ.get(ENGINE_SOCKET_ENV)
    if not library or not sockets:
        missing = ENGINE_SOCKET_ENV if library else LIBRARY_ENV
        log.info("not on a Rowen device: the engine serves without it", missing=missing)
        return None
    try:
        return NativeOnline(library, sockets)
    except (OSError, AttributeError) as error:
        log.error("Rowen's library cannot be used: the engine serves without its device", error=str(error))
        return None


@functools.cache
def tenant() -> Tenant:
    """The device of this offline worker, or a stand-in that does nothing outside Rowen."""
    if not os.environ.get(TENANT_SOCKETS_ENV):
        return NoTenant()
    try:
        return NativeTenant()
    except AttributeError:
        log.warning("Rowen's library is not preloaded: progress is not reported")
        return NoTenant()


@dataclass(frozen=True)
class Memory:
    """What this process has of its device's memory."""

    arena: Arena
    ledger: Ledger | None
    """What it does not say there costs nothing to lose. None: an engine's, from which nothing is taken by force, or of
    an agent or a library that knows no ledgers: then its handles are taken last."""


def _open_arena(capacity: int) -> tuple[ctypes.CDLL, int | None, int]:
    """The library, the arena's handle or None, and the error. Raises `OSError`, `AttributeError` without a library."""
    error = ctypes.c_int32()
    if os.environ.get(TENANT_SOCKETS_ENV):
        library = ctypes.CDLL(None)
        library.rowen_tenant_memory.restype = ctypes.c_void_p
        handle = library.rowen_tenant_memory(ctypes.c_uint32(0), ctypes.c_uint32(capacity), ctypes.byref(error))
    else:
        library = ctypes.CDLL(os.environ[LIBRARY_ENV])
        library.rowen_online_memory.restype = ctypes.c_void_p
        handle = library.rowen_online_memory(ctypes.c_uint32(capacity), ctypes.byref(error))
    return library, handle, error.value


def _ledger(library: ctypes.CDLL, arena: int) -> Ledger | None:
    try:
        descriptor = library.rowen_arena_ledger(ctypes.c_void_p(arena))
    except AttributeError:  # of an earlier release
        return None
    return NativeLedger(library, descriptor) if descriptor >= 0 else None


def memory(capacity: int = 0) -> Memory | None:
    """Memory of this process's device, of its first where it has several; once per process.

    `capacity`: handles; 0: as many as the pool has. None where there is no device, or no pool. Raises `OSError`:
    ENOTCONN while no agent has answered yet, and for any other failure.
    """
    if not os.environ.get(TENANT_SOCKETS_ENV) and online() is None:
        return None
    try:
        library, handle, error = _open_arena(capacity)
    except AttributeError:
        log.warning("Rowen's library is not preloaded: there is no memory of the device")
        return None
    if handle:
        return Memory(NativeArena.opened(library, handle), _ledger(library, handle))
    if error == -errno.ENODEV:
        return None
    raise OSError(-error, f"no memory of the device: {os.strerror(-error)}")

"""Rowen's native library as the runtime calls it. Outside a Rowen device every lookup gives None."""

import ctypes
import functools
import os
from typing import Protocol

import structlog
from typing_extensions import override

from rowen.crds.names import DEVICE_PAGE_ENV, LIBRARY_ENV, TENANT_PAGE_ENV

log = structlog.get_logger()


class Online(Protocol):
    """The online side of a device. No call blocks and none raises."""

    def busy(self) -> None:
        """One more request is in flight; closes the gate at once."""

    def idle(self) -> None:
        """One request fewer is in flight."""

    def step(self, begin_ns: int, end_ns: int) -> None:
        """An engine step ran (CLOCK_MONOTONIC, nanoseconds)."""

    def gate(self) -> int:
        """The gate word: bit 0 says closed, the bits above count close and open in pairs."""

    def record(self, ttft_ns: int, tpot_ns: int, output_tokens: int, preemptions: int, tenant_present: bool) -> None:
        """A request ended."""

    def tenants(self) -> int:
        """Offline processes on the device now."""

    def pin(self) -> None:
        """Keeps this process on the device's cpus."""


class Tenant(Protocol):
    """The offline side of a device. No call raises."""

    def progress(self, completed: int, total: int, tokens: int) -> None:
        """Units done of all units, and the tokens that this process has worked through."""


class NativeOnline(Online):
    """`Online` over the C library, attached to the device's page."""

    def __init__(self, library_path: str, device_page: str) -> None:
        """Raises `OSError` when the library or the page cannot be used."""
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
        self._gate = library.rowen_online_gate
        self._gate.argtypes, self._gate.restype = [], ctypes.c_uint32
        self._record = library.rowen_online_record
        self._record.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32]
        self._record.restype = None
        self._tenants = library.rowen_online_tenants
        self._tenants.argtypes, self._tenants.restype = [], ctypes.c_uint32
        self._pin = library.rowen_online_pin
        self._pin.argtypes, self._pin.restype = [], ctypes.c_int32
        error = self._attach(os.fsencode(device_page))
        if error < 0:
            raise OSError(-error, f"cannot attach to the device page: {os.strerror(-error)}", device_page)

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
    def gate(self) -> int:
        return int(self._gate())

    @override
    def record(self, ttft_ns: int, tpot_ns: int, output_tokens: int, preemptions: int, tenant_present: bool) -> None:
        self._record(ttft_ns, tpot_ns, output_tokens, preemptions, int(tenant_present))

    @override
    def tenants(self) -> int:
        return int(self._tenants())

    @override
    def pin(self) -> None:
        error = self._pin()
        if error < 0:
            log.warning("the engine could not be pinned to its device", error=os.strerror(-error))


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
    """The device of this engine; None, said once in the log, where there is none or it refuses this process.

    An engine without its device serves as before: a device without an attached engine is never harvested.
    """
    library, page = os.environ.get(LIBRARY_ENV), os.environ.get(DEVICE_PAGE_ENV)
    if not library or not page:
        log.info("not on a Rowen device: the engine serves without it", missing=LIBRARY_ENV)
        return None
    try:
        return NativeOnline(library, page)
    except (OSError, AttributeError) as error:
        log.error("Rowen's device cannot be used: the engine serves without it", error=str(error))
        return None


@functools.cache
def tenant() -> Tenant:
    """The device of this offline worker, or a stand-in that does nothing outside Rowen."""
    if not os.environ.get(TENANT_PAGE_ENV):
        return NoTenant()
    try:
        return NativeTenant()
    except AttributeError:
        log.warning("Rowen's library is not preloaded: progress is not reported")
        return NoTenant()

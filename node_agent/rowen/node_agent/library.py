"""The native library's functions and structures, as ctypes sees them (node_agent/native/{rowen_abi,agent}.h)."""

import ctypes
from functools import cache
from pathlib import Path

from rowen.node_agent.native import library_path

ABI_VERSION = 1
TENANT_SLOTS = 16
RING_ENTRIES = 4096
CPU_WORDS = 16


class Record(ctypes.Structure):
    """`struct rowen_record`: a finished online request."""

    _fields_ = [
        ("number", ctypes.c_uint64),
        ("end_ns", ctypes.c_uint64),
        ("ttft_ns", ctypes.c_uint64),
        ("tpot_ns", ctypes.c_uint64),
        ("output_tokens", ctypes.c_uint32),
        ("preemptions", ctypes.c_uint32),
        ("tenant_present", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


class Transition(ctypes.Structure):
    """`struct rowen_transition`: a close of the gate and what followed."""

    _fields_ = [
        ("number", ctypes.c_uint64),
        ("closed_ns", ctypes.c_uint64),
        ("ack_ns", ctypes.c_uint64),
        ("opened_ns", ctypes.c_uint64),
        ("tenants", ctypes.c_uint32),
        ("reason", ctypes.c_uint32),
    ]


class TenantStatus(ctypes.Structure):
    """`struct rowen_tenant_status`."""

    _fields_ = [
        ("open_ns", ctypes.c_uint64),
        ("preemptions", ctypes.c_uint64),
        ("backstops", ctypes.c_uint64),
        ("reports", ctypes.c_uint64),
        ("completed", ctypes.c_uint64),
        ("total", ctypes.c_uint64),
        ("tokens", ctypes.c_uint64),
        ("granted_ns", ctypes.c_uint64),
        ("attached", ctypes.c_uint32),
        ("stopped", ctypes.c_uint32),
    ]


class Status(ctypes.Structure):
    """`struct rowen_status`."""

    _fields_ = [
        ("now_ns", ctypes.c_uint64),
        ("idle_ns", ctypes.c_uint64),
        ("harvested_ns", ctypes.c_uint64),
        ("preemptions", ctypes.c_uint64),
        ("backstops", ctypes.c_uint64),
        ("gap_ns", ctypes.c_uint64),
        ("cooldown_ns", ctypes.c_uint64),
        ("lease_until_ns", ctypes.c_uint64),
        ("records_made", ctypes.c_uint64),
        ("transitions_made", ctypes.c_uint64),
        ("gate", ctypes.c_uint32),
        ("online_attached", ctypes.c_uint32),
        ("in_flight", ctypes.c_uint32),
        ("tenants", ctypes.c_uint32),
        ("accounts", TenantStatus * TENANT_SLOTS),
    ]


CpuMask = ctypes.c_uint64 * CPU_WORDS


def load_library(path: Path) -> ctypes.CDLL:
    """Loads a library and declares its functions. Raises `OSError`, or `RuntimeError` for another ABI."""
    library = ctypes.CDLL(str(path))
    u32, u64, i32, handle = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32, ctypes.c_void_p
    signatures: dict[str, tuple[object, list[object]]] = {
        "rowen_abi_version": (u32, []),
        "rowen_agent_open": (
            handle,
            [ctypes.c_char_p, u32, ctypes.POINTER(ctypes.c_uint64), u64, ctypes.POINTER(i32)],
        ),
        "rowen_agent_start": (i32, [handle]),
        "rowen_agent_beat": (u64, [handle]),
        "rowen_agent_close": (None, [handle]),
        "rowen_agent_renew": (None, [handle, u64]),
        "rowen_agent_reset": (i32, [handle, u32]),
        "rowen_agent_status": (None, [handle, ctypes.POINTER(Status)]),
        "rowen_agent_records": (u32, [handle, u64, ctypes.POINTER(Record), u32]),
        "rowen_agent_transitions": (u32, [handle, u64, ctypes.POINTER(Transition), u32]),
        "rowen_raise": (i32, [i32]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    found = library.rowen_abi_version()
    if found != ABI_VERSION:
        raise RuntimeError(f"{path} has ABI {found}; this agent speaks {ABI_VERSION}")
    return library


@cache
def agent_library() -> ctypes.CDLL:
    """The library that was built with this package."""
    return load_library(library_path())

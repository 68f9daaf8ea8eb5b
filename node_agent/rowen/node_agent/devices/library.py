"""The native library as ctypes sees it (node_agent/native/rowen_abi.h, node_agent/native/agent/agent.h)."""

import ctypes
from functools import cache
from pathlib import Path

from rowen.node_agent.native import library_path

ABI_VERSION = 2
TENANT_SLOTS = 16
RING_ENTRIES = 4096
CPU_WORDS = 16
WHOLE = 10
"""Tenths of a device."""
ENGINE = -1


class RequestEntry(ctypes.Structure):
    """`struct rowen_request`: a finished online request."""

    _fields_ = [
        ("number", ctypes.c_uint64),
        ("begin_ns", ctypes.c_uint64),
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
        ("share", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


class Account(ctypes.Structure):
    """`struct rowen_account`: what is kept of a slot's pod."""

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
        ("offence", ctypes.c_uint32),
        ("offender", ctypes.c_int32),
        ("offences", ctypes.c_uint32),
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
        ("requests_made", ctypes.c_uint64),
        ("transitions_made", ctypes.c_uint64),
        ("gate", ctypes.c_uint32),
        ("online_attached", ctypes.c_uint32),
        ("in_flight", ctypes.c_uint32),
        ("tenants", ctypes.c_uint32),
        ("accounts", Account * TENANT_SLOTS),
        ("steps", ctypes.c_uint64),
        ("step_ns", ctypes.c_uint64),
        ("decode_rows", ctypes.c_uint64),
        ("prefill_tokens", ctypes.c_uint64),
        ("shared_ns", ctypes.c_uint64),
        ("share", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


class CgroupHandle(ctypes.Structure):
    """`struct rowen_cgroup`."""

    _fields_ = [
        (name, ctypes.c_int32)
        for name in ("directory", "request", "state", "usage", "system", "kill", "version", "quota", "period", "weight")
    ]


CpuMask = ctypes.c_uint64 * CPU_WORDS


def load_library(path: Path) -> ctypes.CDLL:
    """Loads a library and declares its functions. Raises `OSError`, or `RuntimeError` for another ABI."""
    library = ctypes.CDLL(str(path))
    u32, u64, i32, handle, text = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p
    signatures: dict[str, tuple[object, list[object]]] = {
        "rowen_abi_version": (u32, []),
        "rowen_agent_open": (handle, [text, u32, ctypes.POINTER(ctypes.c_uint64), u64, ctypes.POINTER(i32)]),
        "rowen_agent_allow_cpu": (None, [handle]),
        "rowen_agent_set_pool": (None, [handle, handle]),
        "rowen_agent_start": (i32, [handle]),
        "rowen_agent_beat": (u64, [handle]),
        "rowen_agent_close": (ctypes.c_int32, [handle]),
        "rowen_agent_renew": (None, [handle, u64]),
        "rowen_agent_set_riders": (None, [handle, u32]),
        "rowen_agent_device_file": (i32, [handle, u32]),
        "rowen_agent_member_file": (i32, []),
        "rowen_agent_admit": (i32, [handle, i32, i32, i32, i32]),
        "rowen_agent_loosen": (None, [handle, u32]),
        "rowen_agent_dismiss": (None, [handle, u32]),
        "rowen_agent_set_pod": (i32, [handle, u32, u64, text, text, text]),
        "rowen_agent_reset": (i32, [handle, u32]),
        "rowen_agent_status": (None, [handle, ctypes.POINTER(Status)]),
        "rowen_agent_requests": (u32, [handle, u64, ctypes.POINTER(RequestEntry), u32]),
        "rowen_agent_transitions": (u32, [handle, u64, ctypes.POINTER(Transition), u32]),
        "rowen_raise": (i32, [i32]),
        "rowen_cgroup_open": (i32, [ctypes.POINTER(CgroupHandle), text, text, text]),
        "rowen_cgroup_close": (None, [ctypes.POINTER(CgroupHandle)]),
        "rowen_cgroup_kill": (i32, [ctypes.POINTER(CgroupHandle)]),
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

"""The `nvidia` gate library, called from Python."""

import ctypes
from dataclasses import dataclass
from pathlib import Path

MOST_CHANNELS = 1024
STATUS = {
    0x1B: "INSUFFICIENT_PERMISSIONS",
    0x1F: "INVALID_ARGUMENT",
    0x21: "INVALID_CHANNEL",
    0x23: "INVALID_CLIENT",
    0x31: "INVALID_OBJECT",
    0x33: "INVALID_OBJECT_HANDLE",
    0x40: "INVALID_STATE",
    0x56: "NOT_SUPPORTED",
    0x65: "TIMEOUT",
    0x66: "TIMEOUT_RETRY",
}


def status_name(status: int) -> str:
    """What the RM says (positive), or the system (negative errno)."""
    if status == 0:
        return "OK"
    return STATUS.get(status, f"{status:#x}") if status > 0 else f"errno {-status}"


class _Channel(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("client", "subdevice", "group", "channel", "kind", "engine")),
        ("fd", ctypes.c_int32),
        ("compute", ctypes.c_uint32),
        ("copy", ctypes.c_uint32),
    ]


class OwnClient(ctypes.Structure):
    """A client of the calling process on a GPU."""

    _fields_ = [
        ("control_fd", ctypes.c_int32),
        ("device_fd", ctypes.c_int32),
        *((name, ctypes.c_uint32) for name in ("client", "device", "subdevice", "device_instance")),
    ]


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel as the hook saw it. `compute` and `copy` are classes of engine objects on it; 0: none."""

    client: int
    subdevice: int
    group: int
    channel: int
    kind: int
    engine: int
    fd: int
    compute: int
    copy: int


class Library:
    """`librowen_nvidia` at a path. Results are the RM's status (0: done) or a negative errno."""

    def __init__(self, path: Path | str) -> None:
        self._library = ctypes.CDLL(str(path))
        self._library.rowen_rm_lost.restype = ctypes.c_uint32
        self._library.rowen_rm_channels.restype = ctypes.c_uint32

    def channels(self) -> list[Channel]:
        """This process's channels. Raises `RuntimeError` when there are more than can be listed."""
        found = (_Channel * MOST_CHANNELS)()
        count = self._library.rowen_rm_channels(found, MOST_CHANNELS)
        if count > MOST_CHANNELS or self._library.rowen_rm_lost():
            raise RuntimeError(f"{count} channels, {self._library.rowen_rm_lost()} objects without room")
        return [Channel(*(getattr(entry, name) for name, _ in _Channel._fields_)) for entry in found[:count]]

    def switch_all(self, *, stop: bool) -> int:
        """Stops or starts every channel of this process."""
        return int(self._library.rowen_rm_switch_all(int(stop)))

    def switch(self, fd: int, client: int, subdevice: int, channels: list[tuple[int, int]], *, stop: bool) -> int:
        """Stops or starts channels, given as (client, channel), through `client` and `subdevice` on `fd`."""
        count = len(channels)
        clients = (ctypes.c_uint32 * count)(*(owner for owner, _ in channels))
        handles = (ctypes.c_uint32 * count)(*(handle for _, handle in channels))
        return int(self._library.rowen_rm_switch(fd, client, subdevice, clients, handles, count, int(stop)))

    def control(self, fd: int, client: int, object_: int, command: int, params: ctypes.Array[ctypes.c_char]) -> int:
        """Any other control; `params` is changed in place."""
        return int(self._library.rowen_rm_control(fd, client, object_, command, params, len(params)))

    def open(self, minor: int) -> tuple[int, OwnClient]:
        """A client of this process's own on `/dev/nvidia<minor>`."""
        own = OwnClient()
        return int(self._library.rowen_rm_open(minor, ctypes.byref(own))), own

    def close(self, own: OwnClient) -> None:
        """Ends it."""
        self._library.rowen_rm_close(ctypes.byref(own))

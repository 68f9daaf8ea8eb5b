"""How an engine attaches to its device, however busy the machine is."""

import ctypes
import errno
import os
import time

_DOOR_LATE = (-errno.ETIMEDOUT, -errno.ECONNRESET)
_PATIENCE_SECONDS = 30.0


def attach(library: ctypes.CDLL, socket: str) -> int:
    """What `rowen_online_attach` returns: 0, or -errno.

    It waits a second for the agent. When that gets no CPU for so long, the library goes on asking by itself, and this
    call waits until it has been answered.
    """
    path, end = os.fsencode(socket), time.monotonic() + _PATIENCE_SECONDS
    library.rowen_online_attach.argtypes = [ctypes.c_char_p]
    first = error = int(library.rowen_online_attach(path))
    while first in _DOOR_LATE and error != 0 and time.monotonic() < end:
        time.sleep(0.01)
        error = int(library.rowen_online_attach(path))
    return error

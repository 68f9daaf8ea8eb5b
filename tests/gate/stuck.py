"""A native thread that does not come round any more: another process traces it and keeps it stopped."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gate.rig import thread_names, until

# The thread goes on when its tracer ends. One that is killed is the tracer's to wait for before its process is gone.
TRACER = """
import ctypes, os, select, sys
SEIZE, INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000
libc, tid = ctypes.CDLL(None, use_errno=True), int(sys.argv[1])
for request in (SEIZE, INTERRUPT):
    if libc.ptrace(request, tid, None, None) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
os.waitpid(tid, WALL)
print("stopped", flush=True)
while not select.select([sys.stdin], [], [], 0.05)[0] and os.waitpid(tid, WALL | os.WNOHANG) == (0, 0):
    pass
"""


def _device_threads(pid: int) -> list[int]:
    return [thread for thread, name in thread_names(pid).items() if name == "rowen-device"]


@contextmanager
def stuck_device_thread(pid: int) -> Iterator[None]:
    """Meanwhile the thread of the one device that the process serves executes nothing."""
    until(lambda: len(_device_threads(pid)) == 1, "the device has its thread")
    [tid] = _device_threads(pid)
    command = [sys.executable, "-c", TRACER, str(tid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tracer:
        assert tracer.stdout is not None
        assert tracer.stdout.readline() == "stopped\n"
        yield

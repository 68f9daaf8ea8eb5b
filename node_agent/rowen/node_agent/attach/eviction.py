"""Ends every process of a pod from outside, frozen or not."""

import ctypes
import os
import time

from rowen.node_agent.attach.cgroup import PodCgroup
from rowen.node_agent.devices.library import CgroupHandle, agent_library

_PATIENCE_SECONDS = 5.0
"""A process with much memory takes the kernel some time to end."""
_PAUSE_SECONDS = 0.02


def kill(pod: PodCgroup) -> bool:
    """Kills the pod's processes; True when the last look found none that still has to be killed.

    Takes 5 s at most. Raises `OSError` when its cgroup cannot be used; one that is gone has no processes.
    """
    library = agent_library()
    handle = CgroupHandle()
    cpuacct = os.fsencode(pod.cpuacct) if pod.cpuacct else None
    error = library.rowen_cgroup_open(ctypes.byref(handle), os.fsencode(pod.directory), cpuacct, None)
    if error:
        return _is_gone(pod, error)
    try:
        end = time.monotonic() + _PATIENCE_SECONDS
        while (found := library.rowen_cgroup_kill(ctypes.byref(handle))) > 0 and time.monotonic() < end:
            time.sleep(_PAUSE_SECONDS)
    finally:
        library.rowen_cgroup_close(ctypes.byref(handle))
    return found == 0 if found >= 0 else _is_gone(pod, found)


def _is_gone(pod: PodCgroup, error: int) -> bool:
    """Whether the error is that the cgroup was removed. Raises `OSError` for any other one."""
    if not pod.directory.exists():
        return True
    raise OSError(-error, os.strerror(-error), str(pod.directory))

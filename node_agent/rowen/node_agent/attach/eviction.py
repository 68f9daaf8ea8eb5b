"""Ends every process of a pod from outside, frozen or not."""

import ctypes
import os
import time

import structlog

from rowen.node_agent.attach.cgroup import PodCgroup
from rowen.node_agent.library import CgroupHandle, agent_library

log = structlog.get_logger()

_ROUNDS = 20
_PAUSE_SECONDS = 0.01


def kill(pod: PodCgroup) -> bool:
    """Kills the pod's processes; True when the last look found none that still has to be killed.

    Raises `OSError` when its cgroup cannot be used; one that is gone has no processes.
    """
    library = agent_library()
    handle = CgroupHandle()
    cpuacct = os.fsencode(pod.cpuacct) if pod.cpuacct else None
    error = library.rowen_cgroup_open(ctypes.byref(handle), os.fsencode(pod.directory), cpuacct)
    if error:
        if not pod.directory.exists():
            return True
        raise OSError(-error, os.strerror(-error), str(pod.directory))
    try:
        for _ in range(_ROUNDS):
            if library.rowen_cgroup_kill(ctypes.byref(handle)) <= 0:
                return True
            time.sleep(_PAUSE_SECONDS)
    finally:
        library.rowen_cgroup_close(ctypes.byref(handle))
    log.warning("a pod's processes do not end", pod=pod.uid)
    return False

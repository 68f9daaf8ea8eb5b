"""Raises tenants' control threads above everything that they have to stop."""

import os
from pathlib import Path

from rowen.node_agent.library import Process

_FIFO_PRIORITY = 2
_NICE = -20


def _host_tid(pid: int, control_tid: int) -> int | None:
    """The thread whose id in its innermost PID namespace is `control_tid`, or None."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("NSpid:") and int(line.split()[-1]) == control_tid:
                return int(task.name)
    return None


def raise_control_thread(process: Process) -> bool:
    """Real-time priority, or the best niceness where that is not permitted; False if neither worked."""
    if process.pid <= 0 or process.control_tid <= 0:
        return False
    try:
        tid = _host_tid(process.pid, process.control_tid)
        if tid is None:
            return False
        try:
            policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
            os.sched_setscheduler(tid, policy, os.sched_param(_FIFO_PRIORITY))
        except PermissionError:
            os.setpriority(os.PRIO_PROCESS, tid, _NICE)
    except OSError:
        return False
    return True

"""Raises tenants' control threads above everything that they have to stop."""

from pathlib import Path

from rowen.node_agent.library import Process, agent_library


def _host_tid(pid: int, control_tid: int) -> int | None:
    """The thread whose id in its innermost PID namespace is `control_tid`, or None."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("NSpid:") and int(line.split()[-1]) == control_tid:
                return int(task.name)
    return None


def raise_control_thread(process: Process) -> bool:
    """Gives it the best priority that the kernel grants (native/priority.c); False if it could not."""
    if process.pid <= 0 or process.control_tid <= 0:
        return False
    try:
        tid = _host_tid(process.pid, process.control_tid)
    except OSError:
        return False
    return tid is not None and agent_library().rowen_raise(tid) >= 0

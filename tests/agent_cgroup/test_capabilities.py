"""Which capabilities the agent needs to stop pods by their cgroups."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from agent_cgroup.rig import Group
from gate.rig import until

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="the agent runs as root")

RIGHTS = """
import sys, time
from pathlib import Path
from agent_cgroup.rig import Handle
words = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
handle = Handle(Path(sys.argv[1]), Path(sys.argv[2]) if sys.argv[2] else None)
print(int(words["CapEff"], 16), handle.opened, handle.call("freeze"), flush=True)
while handle.call("frozen") == 0: time.sleep(0.001)
print(handle.usage() >= 0, handle.processes()[0], handle.call("thaw"))
if sys.argv[3] == "False": handle.struct.kill = -1
print(handle.call("kill"))
"""
KILL, SYS_NICE = 5, 23


def _with_rights(group: Group, rights: str, *, kills: bool) -> list[str]:
    """What the agent's calls return in a process with these capabilities, where another user's process runs."""
    process = group.run("nobody")
    until(lambda: group.counts() != [0], "the program runs")
    bounded = ["setpriv", f"--bounding-set={rights}", "--inh-caps=-all", "--no-new-privs"]
    words = [sys.executable, "-c", RIGHTS, str(group.directory), str(group.cpuacct or ""), str(kills)]
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    said = subprocess.run(
        [*bounded, *words],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = said.stdout.splitlines()
    if lines[-1] == "1":
        assert process.wait(20) == -signal.SIGKILL
    return lines


def test_the_agents_capabilities_suffice(group: Group) -> None:
    rights = f"{1 << KILL | 1 << SYS_NICE} 0 0"
    assert _with_rights(group, "-all,+kill,+sys_nice", kills=group.kills) == [rights, "True 1 0", "1"]


def test_signalling_is_all_that_needs_a_capability_and_the_others_are_killed(group: Group) -> None:
    own = group.run("1", inside=group.nested("container"))
    until(lambda: own.pid in group.left(), "the agent's user has a process there too")
    assert _with_rights(group, "-all", kills=False) == ["0 0 0", "True 2 0", str(-errno.EPERM)]
    assert own.wait(20) == -signal.SIGKILL
    assert len(group.left()) == 1

"""The priority that control threads get, from the kernel that runs the tests."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowen.node_agent.library import agent_library

SCHED_DEADLINE = 6
GROUPS = Path("/sys/fs/cgroup/cpu")
SLEEPER = "import sys; print('ready', flush=True); sys.stdin.read()"


class Sleeper:
    """A process that waits."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SLEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.process.stdout.readline()
        self.pid = self.process.pid

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def sleeper() -> Iterator[Sleeper]:
    made = Sleeper()
    yield made
    made.end()


@pytest.fixture
def group() -> Iterator[Path]:
    """A cgroup without a real-time budget, as a pod's is."""
    made = GROUPS / f"rowen-test-{os.getpid()}"
    if not (GROUPS / "cpu.rt_runtime_us").exists() or not os.access(GROUPS, os.W_OK):
        pytest.skip("this kernel has no real-time group scheduling, or its groups cannot be made here")
    made.mkdir()
    yield made
    made.rmdir()


def test_what_is_said_to_be_given_is_given(sleeper: Sleeper) -> None:
    policy = agent_library().rowen_raise(sleeper.pid)
    assert policy in (os.SCHED_FIFO, SCHED_DEADLINE, os.SCHED_OTHER)
    assert os.sched_getscheduler(sleeper.pid) & ~os.SCHED_RESET_ON_FORK == policy
    if policy == os.SCHED_OTHER:
        assert os.getpriority(os.PRIO_PROCESS, sleeper.pid) == -20


def test_without_a_real_time_budget_it_is_a_deadline_reservation_on_all_cpus(group: Path) -> None:
    made = Sleeper()
    try:
        allowed = os.sched_getaffinity(made.pid)
        (group / "cgroup.procs").write_text(str(made.pid))
        os.sched_setaffinity(made.pid, {max(allowed)})
        assert agent_library().rowen_raise(made.pid) == SCHED_DEADLINE
        assert os.sched_getscheduler(made.pid) & ~os.SCHED_RESET_ON_FORK == SCHED_DEADLINE
        assert os.sched_getaffinity(made.pid) == allowed
    finally:
        made.end()


def test_a_thread_that_is_gone_is_said_to_be() -> None:
    made = Sleeper()
    made.end()
    assert agent_library().rowen_raise(made.pid) == -3

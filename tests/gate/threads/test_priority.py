"""The priority that control threads get, from the kernel that runs the tests."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gate.rig import COUNTER, Rig, Tenant, thread_names, until

from rowen.node_agent.attach.message import MAGIC
from rowen.node_agent.devices.library import ABI_VERSION, agent_library

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


@pytest.mark.parametrize("niceness", [0, -20])
def test_what_was_given_is_taken_back(sleeper: Sleeper, niceness: int) -> None:
    if niceness:
        os.setpriority(os.PRIO_PROCESS, sleeper.pid, niceness)
    else:
        agent_library().rowen_raise(sleeper.pid)
    assert agent_library().rowen_lower(sleeper.pid) == 1
    assert os.sched_getscheduler(sleeper.pid) & ~os.SCHED_RESET_ON_FORK == os.SCHED_OTHER
    assert os.getpriority(os.PRIO_PROCESS, sleeper.pid) == 0


def test_where_nothing_was_given_nothing_is_taken(sleeper: Sleeper) -> None:
    os.setpriority(os.PRIO_PROCESS, sleeper.pid, 10)
    assert agent_library().rowen_lower(sleeper.pid) == 0
    assert os.getpriority(os.PRIO_PROCESS, sleeper.pid) == 10


def test_a_thread_that_is_gone_is_said_to_be() -> None:
    made = Sleeper()
    made.end()
    assert agent_library().rowen_raise(made.pid) == -3
    assert agent_library().rowen_lower(made.pid) == 0


def _control_threads() -> dict[int, int]:
    """Policy of each control thread of this machine, by its id here."""
    found = {}
    for task in Path("/proc").glob("[0-9]*/task/[0-9]*"):
        try:
            if (task / "comm").read_text().strip() == "rowen-gate":
                found[int(task.name)] = os.sched_getscheduler(int(task.name)) & ~os.SCHED_RESET_ON_FORK
        except OSError:  # it has ended
            continue
    return found


def _is_raised(tid: int, policy: int) -> bool:
    return policy in (os.SCHED_FIFO, SCHED_DEADLINE) or os.getpriority(os.PRIO_PROCESS, tid) == -20


def test_the_agent_raises_a_tenant_that_may_not_do_so_and_has_ids_of_its_own(rig: Rig) -> None:
    rig.engine()
    others = _control_threads().keys()
    powerless = ["setpriv", "--inh-caps=-all", "--bounding-set=-all", sys.executable, "-c", COUNTER + "spin()"]
    tenant = rig.run(["unshare", "--pid", "--fork", "--kill-child", *powerless])
    tenant.advances()

    def made() -> dict[int, int]:
        return {tid: policy for tid, policy in _control_threads().items() if tid not in others}

    # unshare waits behind the gate too, and has every right; the program has none.
    until(lambda: len(made()) == 2, "both have a control thread")
    until(lambda: all(_is_raised(*thread) for thread in made().items()), "both are raised")


# Names one of its own threads as the control thread, attaches anew and names another.
GREEDY = """
import ctypes, re
def names(tid):
    start = re.search(r"^([0-9a-f]+)-.*rowen-member", open("/proc/self/maps").read(), re.M)[1]
    ctypes.c_int32.from_address(int(start, 16) + CONTROL_TID).value = tid
CONTROL_TID = 64 + 4
libc = ctypes.CDLL(None)
threads = []
def work():
    threads.append(libc.syscall(186))
    while True:
        time.sleep(0.01)
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
while len(threads) < 3:
    pass
for index, tid in enumerate(threads):
    names(tid)
    os.closerange(3, 4096)
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        names(tid)
_counts = open(os.environ["COUNTS"], "r+b", buffering=0)
_counts.write((1).to_bytes(8, "little"))
time.sleep(3600)
"""


def _raised(pid: int) -> int:
    """Threads of the process that go before others."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    policies = [os.sched_getscheduler(int(task.name)) & ~os.SCHED_RESET_ON_FORK for task in tasks]
    return sum(policy in (os.SCHED_FIFO, SCHED_DEADLINE) for policy in policies)


def test_a_process_that_names_other_threads_has_one_that_goes_first(rig: Rig) -> None:
    rig.engine()
    tenant = rig.tenant(GREEDY)
    until(lambda: tenant.counts() == [1], "it has tried all")
    assert _raised(tenant.process.pid) <= 2


# Processes without the library that attach by themselves; they name the threads made last as control threads, and
# compute in the first ones while a file is there.
ATTACHES_ITSELF = """
import socket, struct
for _ in range(int(os.environ["CHILDREN"])):
    if os.fork() == 0:
        break
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect(os.environ["ROWEN_TENANT_SOCKETS"])
connection.send(struct.pack("<QIIQ", int(os.environ["MAGIC"]), int(os.environ["ABI"]), 24, 0))
_, files, _, _ = socket.recv_fds(connection, 4096, 2)
member = mmap.mmap(files[1], 4096)
"""
NAMES_ITSELF = """
named = threading.get_native_id()
for _ in range(int(os.environ["THREADS"])):
    thread = threading.Thread(target=threading.Event().wait)
    thread.start()
    named = thread.native_id
member[68:72] = named.to_bytes(4, "little")
count()
while True:
    if not os.path.exists(os.environ["COMPUTES"]):
        time.sleep(0.1)
"""


# Or name another, which runs the next program once it is raised.
RUNS_ANOTHER = """
import sys
def goes_first(tid):
    return os.sched_getscheduler(tid) & ~os.SCHED_RESET_ON_FORK in (1, 6) or os.getpriority(os.PRIO_PROCESS, tid) < 0
def work():
    tid = threading.get_native_id()
    member[68:72] = tid.to_bytes(4, "little")
    while not goes_first(tid):
        time.sleep(0.01)
    os.execv(sys.executable, [sys.executable, "-c", os.environ["ANOTHER"]])
threading.Thread(target=work).start()
time.sleep(3600)
"""


def _attaches_itself(rig: Rig, code: str, **extra: object) -> Tenant:
    """Started while the gate is open, as it stays."""
    rig.engine()
    rig.opened()
    own = {"MAGIC": MAGIC, "ABI": ABI_VERSION, "LD_PRELOAD": "", "CHILDREN": 0, **extra}
    return rig.tenant(ATTACHES_ITSELF + code, **{name: str(value) for name, value in own.items()})


def _names_itself(rig: Rig, computes: Path, children: int = 0, threads: int = 0) -> Tenant:
    """`threads`: beside the first one."""
    return _attaches_itself(rig, NAMES_ITSELF, COMPUTES=computes, CHILDREN=children, THREADS=threads)


def _goes_first(pid: int) -> bool:
    try:
        return _is_raised(pid, os.sched_getscheduler(pid) & ~os.SCHED_RESET_ON_FORK)
    except ProcessLookupError:
        return False


def test_a_thread_that_computes_goes_first_again_when_it_has_rested(rig: Rig, tmp_path: Path) -> None:
    computes = tmp_path / "computes"
    pid = _names_itself(rig, computes).process.pid
    until(lambda: _goes_first(pid), "it is raised")
    computes.touch()
    until(lambda: not _goes_first(pid), "it is lowered")
    computes.unlink()
    until(lambda: _goes_first(pid), "it is raised again")


def test_a_thread_does_not_take_its_priority_along_into_another_program(rig: Rig) -> None:
    another = COUNTER + "count()\ntime.sleep(3600)"
    tenant = _attaches_itself(rig, RUNS_ANOTHER, ANOTHER=another)
    until(lambda: tenant.counts() == [1], "it runs the other program")
    until(lambda: not _goes_first(tenant.process.pid), "it is lowered")


def test_so_many_processes_of_a_pod_have_a_thread_that_goes_first(rig: Rig, tmp_path: Path) -> None:
    _names_itself(rig, tmp_path / "computes", children=39)
    until(lambda: rig.device.counts().tenants[0].attached == 40, "all are in")

    def first() -> set[int]:
        pids = map(int, (rig.pods[0].freezer / "cgroup.procs").read_text().split())
        return {pid for pid in pids if _goes_first(pid)}

    until(lambda: len(first()) == 32, "so many are raised")
    time.sleep(0.3)
    assert len(first()) == 32
    gone = max(first())
    os.kill(gone, signal.SIGKILL)
    until(lambda: len(first() - {gone}) == 32, "another takes its place")


def test_a_thread_is_not_looked_for_among_all_that_a_process_has(rig: Rig, tmp_path: Path) -> None:
    many = _names_itself(rig, tmp_path / "computes", threads=400)
    until(lambda: many.counts() == [1], "it has named its last thread")
    few = _names_itself(rig, tmp_path / "computes", threads=1)
    until(lambda: any(map(_goes_first, thread_names(few.process.pid))), "the agent has looked since")
    assert not any(map(_goes_first, thread_names(many.process.pid)))

"""Groups and policies of real processes, as far as the machine that runs the tests has them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from colocation.sharing import Weight, hierarchy, idle_policy, members, pin, pods

V1 = """\
tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
"""
V2 = """\
cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0
cgroup /sys/fs/cgroup/freezer cgroup rw,freezer 0 0
"""
OWN = "5:cpuset:/\n4:freezer:/cold\n2:cpu,cpuacct:/mine/too\n0::/user.slice/x:y\n"
THREADS = """
import threading, time
for _ in range(2):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    started = [
        subprocess.Popen([sys.executable, "-c", THREADS], stdout=subprocess.PIPE, text=True, process_group=0)
        for _ in range(2)
    ]
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    yield started
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def groups() -> list[str]:
    root = hierarchy(Path("/proc/self/mounts").read_text(), Path("/proc/self/cgroup").read_text()).root
    return [str(folder) for folder in root.glob(f"rowen-benchmark-{os.getpid()}-*")]


def cpu_group(process: int) -> str:
    lines = [line.split(":", 2) for line in Path(f"/proc/{process}/cgroup").read_text().splitlines()]
    return next(path for _, names, path in sorted(lines, reverse=True) if names in ("cpu", "cpu,cpuacct", ""))


def policies(process: int) -> set[int]:
    return {os.sched_getscheduler(int(task.name)) for task in Path(f"/proc/{process}/task").iterdir()}


def needs_groups() -> None:
    root = hierarchy(Path("/proc/self/mounts").read_text(), Path("/proc/self/cgroup").read_text()).root
    try:
        (root / f"rowen-test-{os.getpid()}").mkdir()
        has_weights = (root / f"rowen-test-{os.getpid()}" / "cpu.idle").exists()
        (root / f"rowen-test-{os.getpid()}").rmdir()
    except OSError as error:
        pytest.skip(f"this machine has no groups to make: {error}")
    if not has_weights:
        pytest.skip("groups of this machine have no cpu.idle")


def test_the_cpu_controller_of_version_1_is_found_among_others():
    found = hierarchy(V1, OWN)
    assert (found.version, str(found.root)) == (1, "/sys/fs/cgroup/cpu,cpuacct")
    assert str(found.home) == "/sys/fs/cgroup/cpu,cpuacct/mine/too"


def test_version_2_is_used_where_version_1_has_no_cpu_controller():
    found = hierarchy(V2, OWN)
    assert (found.version, str(found.root)) == (2, "/sys/fs/cgroup")
    assert str(found.home) == "/sys/fs/cgroup/user.slice/x:y"


def test_without_the_controller_the_reason_is_told():
    with pytest.raises(FileNotFoundError, match="no control groups with the cpu controller are mounted"):
        hierarchy("tmpfs / tmpfs rw 0 0\n", OWN)


@pytest.mark.parametrize("weight", list(Weight))
def test_pods_have_a_group_each_until_the_end(processes, weight):
    engine, tenant = (process.pid for process in processes)
    needs_groups()
    before = cpu_group(engine)
    with pods([engine], [tenant], weight):
        assert cpu_group(engine).endswith("-engine")
        assert cpu_group(tenant).endswith("-tenant")
        assert len(groups()) == 2
    assert cpu_group(engine) == cpu_group(tenant) == before
    assert groups() == []


def test_weights_are_as_pods_have_them(processes):
    engine, tenant = (process.pid for process in processes)
    needs_groups()

    def weight_and_idleness(name: str) -> tuple[str, str]:
        (group,) = (Path(folder) for folder in groups() if folder.endswith(name))
        file = next(group / name for name in ("cpu.shares", "cpu.weight") if (group / name).exists())
        return file.read_text().strip(), (group / "cpu.idle").read_text().strip()

    found = {}
    for weight in Weight:
        with pods([engine], [tenant], weight):
            found[weight] = weight_and_idleness("tenant")
            equal = weight_and_idleness("engine")
    assert found[Weight.EQUAL] == equal
    assert equal[1] == "0"
    assert found[Weight.LEAST] in (("2", "0"), ("1", "0"))
    assert found[Weight.IDLE][1] == "1"


def test_nothing_is_left_of_groups_that_failed(processes):
    engine, tenant = (process.pid for process in processes)
    needs_groups()
    before = cpu_group(engine)
    with pytest.raises(KeyError), pods([engine], [tenant], Weight.EQUAL):
        raise KeyError
    assert cpu_group(engine) == cpu_group(tenant) == before
    assert groups() == []


def test_a_process_that_has_ended_is_passed_over(processes):
    engine, tenant = processes
    needs_groups()
    tenant.kill()
    tenant.wait()
    with pods([engine.pid], [tenant.pid], Weight.EQUAL), idle_policy([tenant.pid]):
        assert cpu_group(engine.pid).endswith("-engine")


def test_idle_policy_holds_for_every_thread_until_the_end(processes):
    one, other = (process.pid for process in processes)
    with idle_policy([one]):
        assert policies(one) == {os.SCHED_IDLE}
        assert policies(other) == {os.SCHED_OTHER}
    assert policies(one) == {os.SCHED_OTHER}


def test_threads_of_another_policy_keep_it(processes):
    process = processes[0].pid
    thread = max(int(task.name) for task in Path(f"/proc/{process}/task").iterdir())
    os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))
    with idle_policy([process]):
        assert os.sched_getscheduler(thread) == os.SCHED_BATCH
        assert os.sched_getscheduler(process) == os.SCHED_IDLE
    assert os.sched_getscheduler(thread) == os.SCHED_BATCH


def test_a_pinned_process_is_pinned_with_all_its_threads(processes):
    core = min(os.sched_getaffinity(0))
    pin(processes[0].pid, {core})
    tasks = [int(task.name) for task in Path(f"/proc/{processes[0].pid}/task").iterdir()]
    assert len(tasks) == 3
    assert all(os.sched_getaffinity(task) == {core} for task in tasks)


def test_members_of_a_process_group(processes):
    assert members(processes[0].pid) == [processes[0].pid]

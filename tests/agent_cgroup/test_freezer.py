"""A pod's cgroup is frozen, thawed and killed, with programs in it that know nothing of Rowen."""

import errno
import fcntl
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from agent_cgroup.rig import Group, Handle, sweep
from descriptors import open_descriptors
from gate.rig import until

GONE = (-errno.ENOENT, -errno.ENODEV)
THREADS = 8
DEPTH = 16
MOST, MANY = 120, 80
"""Processes of a fork bomb, and of one that has spread: more than are signalled at once."""


@pytest.fixture
def handle(group: Group) -> Handle:
    return group.handle()


def _stands_still(group: Group, number: int) -> None:
    before = group.counts(number)
    for _ in range(30):
        time.sleep(0.001)
        assert group.counts(number) == before, "it ran while it was frozen"


def _settled(handle: Handle) -> int:
    """CPU time of what is frozen; the kernel may count the way into standing still a moment later."""
    used = [handle.usage()]

    def settles() -> bool:
        time.sleep(0.005)
        used.append(handle.usage())
        return used[-2] == used[-1]

    until(settles, "CPU time settles")
    return used[-1]


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_nothing_runs_while_frozen_and_all_of_it_after(group: Group, handle: Handle) -> None:
    group.run(str(THREADS))
    group.advances(THREADS)
    assert handle.call("frozen") == 0
    for _ in range(3):
        handle.freeze()
        _stands_still(group, THREADS)
        assert handle.call("thaw") == 0
        assert handle.call("frozen") == 0
        group.advances(THREADS)


def test_cpu_time_stands_still_while_frozen_and_only_then(group: Group, handle: Handle) -> None:
    process = group.run("1")
    until(lambda: handle.usage() > 100_000_000, "CPU time is counted")
    handle.freeze()
    used = _settled(handle)
    on_cpu = int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0])
    # What is counted at ticks differs much from what is measured, on a CPU that many want.
    assert on_cpu / 10 < used < on_cpu * 10
    time.sleep(0.02)
    assert handle.usage() == used
    assert handle.call("thaw") == 0
    until(lambda: handle.usage() > used, "CPU time goes on")


def test_cpu_time_of_what_has_ended_and_of_nested_groups_counts(group: Group, handle: Handle) -> None:
    nested = group.nested("container")
    process = group.run("1", inside=nested)
    until(lambda: handle.usage() > 20_000_000, "CPU time is counted")
    handle.freeze()
    used = handle.usage()
    assert handle.call("kill") == 1
    process.wait()
    assert handle.usage() >= used


def test_cpu_time_of_the_kernel_is_counted_apart(group: Group, handle: Handle) -> None:
    group.run("zeros")
    until(lambda: handle.usages()[2] > 300_000_000, "the kernel's CPU time is counted")
    status, programs, calls = handle.usages()
    assert status == 0
    assert programs < calls / 2


def test_a_request_is_told_from_a_freeze_from_above(group: Group, handle: Handle) -> None:
    below = Handle(group.nested("container")[0], group.cpuacct)
    group.run("1", inside=group.nested("container/process"))
    group.advances()
    assert (handle.call("requested"), below.call("requested")) == (0, 0)
    handle.freeze()
    until(lambda: below.call("frozen") == 1, "it is frozen from above")
    assert (handle.call("requested"), below.call("requested")) == (1, 0)
    assert handle.call("thaw") == 0
    assert handle.call("requested") == 0
    below.close()


def test_a_container_that_is_made_later_freezes_with_the_pod(group: Group, handle: Handle) -> None:
    handle.freeze()
    nested = group.nested("later/inner")
    process = group.run("1", inside=(*nested, *group.directories[3:]))
    until(lambda: process.pid in group.left(), "the process is there")
    _stands_still(group, 1)
    assert group.counts() == [0]
    assert handle.call("thaw") == 0
    group.advances()


def test_an_empty_cgroup_is_frozen_when_asked(group: Group, handle: Handle) -> None:
    assert handle.call("frozen") == 0
    assert handle.call("freeze") == 0
    assert handle.call("frozen") == 1
    assert handle.call("kill") == 0
    assert handle.call("frozen") == 0


def test_freezing_waits_for_nobody_and_is_not_done_before_an_uninterruptible_sleep_ends(
    group: Group, tmp_path: Path
) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    holder = group.run("hold", str(lock), inside=())
    assert holder.stdout is not None
    assert holder.stdin is not None
    assert holder.stdout.readline() == "held\n"
    stuck = group.run("await", str(lock))
    assert stuck.stdout is not None
    assert stuck.stdout.readline() == "waits\n"
    until(lambda: _state(stuck.pid) == "D", "the program cannot be interrupted")
    handle = group.handle()
    assert handle.call("freeze") == 0
    for _ in range(30):
        time.sleep(0.001)
        assert handle.call("frozen") == 0
        assert handle.call("requested") == 1
    print("go", file=holder.stdin)
    until(lambda: handle.call("frozen") == 1, "the tree is frozen")
    assert group.counts() == [0]
    assert handle.call("thaw") == 0
    group.advances()


def test_a_fork_bomb_stands_still_and_is_ended(group: Group, handle: Handle) -> None:
    if not (group.directories[-1] / "pids.max").exists():
        pytest.skip("the number of processes cannot be limited here")
    group.limit(MOST)
    group.run("bomb")
    until(lambda: handle.processes()[0] > MANY, "the bomb has spread")
    handle.freeze()
    before = open_descriptors()
    found, pids = handle.processes(1000)
    assert found > MANY
    assert sorted(pids[:found]) == sorted(group.left())
    _stands_still(group, 1)
    assert handle.processes(1000) == (found, pids)
    assert handle.call("kill") == found
    assert open_descriptors() == before
    until(lambda: group.left() == [], "one call has ended all of it")
    assert handle.call("kill") == 0


def test_a_running_fork_bomb_is_ended(group: Group, handle: Handle) -> None:
    if not (group.directories[-1] / "pids.max").exists():
        pytest.skip("the number of processes cannot be limited here")
    group.limit(MOST)
    group.run("bomb")
    until(lambda: handle.processes()[0] > MANY, "the bomb has spread")
    until(lambda: handle.call("kill") == 0, "nothing is left")
    assert group.left() == []


def test_a_process_that_is_another_at_every_look_is_ended(group: Group, handle: Handle) -> None:
    group.run("comet")
    group.advances()
    until(lambda: handle.call("kill") == 0, "nothing is left")
    assert group.left() == []


def test_what_is_killed_while_frozen_runs_no_more(group: Group, handle: Handle) -> None:
    processes = [group.run("4"), group.run("4", inside=(*group.nested("container"), *group.directories[3:]))]
    outsider = group.run("1", inside=())
    until(lambda: handle.processes()[0] == 2, "both are there")
    group.advances(4)
    handle.freeze()
    before = group.counts(4)[1:]
    assert handle.call("kill") == 2
    assert [process.wait(20) for process in processes] == [-signal.SIGKILL] * 2
    assert group.counts(4)[1:] == before, "a process ran on its way out"
    assert outsider.poll() is None
    assert handle.call("kill") == 0


def test_a_container_that_was_paused_by_itself_is_ended_too(group: Group, handle: Handle) -> None:
    nested = group.nested("paused")
    process = group.run("1", inside=nested)
    until(lambda: process.pid in group.left(), "the process is there")
    file, text = ("freezer.state", "FROZEN") if group.version == 1 else ("cgroup.freeze", "1")
    (nested[0] / file).write_text(text)
    handle.freeze()
    assert handle.call("kill") == 1
    assert process.wait(20) == -signal.SIGKILL


def test_thawing_leaves_paused_what_was_paused_by_itself(group: Group, handle: Handle) -> None:
    nested = group.nested("paused")
    file, text = ("freezer.state", "FROZEN") if group.version == 1 else ("cgroup.freeze", "1")
    (nested[0] / file).write_text(text)
    handle.freeze()
    assert handle.call("thaw") == 0
    group.run("1", inside=nested)
    until(lambda: len(group.left()) == 1, "the process is there")
    _stands_still(group, 1)


def test_processes_of_all_levels_are_listed_as_far_as_there_is_room(group: Group, handle: Handle) -> None:
    inside = [group.run("1").pid]
    inside += [group.run("1", inside=group.nested(path)).pid for path in ("a", "b/c", "b/c/d")]
    until(lambda: handle.processes()[0] == 4, "all are there")
    found, pids = handle.processes(4)
    assert (found, sorted(pids[:4]), pids[4:]) == (4, sorted(inside), [-7])
    found, pids = handle.processes(3)
    assert (found, pids[3]) == (4, -7)
    assert set(pids[:3]) < set(inside)
    assert handle.processes(0) == (4, [-7])


def test_levels_beyond_the_last_are_said_to_be_there(group: Group, handle: Handle) -> None:
    deepest = group.nested("/".join(map(str, range(DEPTH))))
    process = group.run("1", inside=deepest)
    until(lambda: handle.processes()[0] == 1, "the process is there")
    group.nested("/".join(map(str, range(DEPTH + 1))))
    found, pids = handle.processes()
    assert (found, pids[0]) == (-errno.ELOOP, process.pid)


@pytest.mark.parametrize("name", ["freeze", "frozen", "requested", "thaw", "kill"])
def test_a_cgroup_that_is_gone_is_said_to_be(group: Group, handle: Handle, name: str) -> None:
    for directory in group.directories:
        directory.rmdir()
    assert handle.call(name) in GONE
    assert handle.usage() in GONE
    assert handle.processes()[0] in GONE


def test_a_container_that_goes_meanwhile_is_nothing_to_speak_of(group: Group, handle: Handle) -> None:
    """Containers come and go all the while that the tree is walked."""
    nested = group.nested("container")
    child = os.fork()
    if child == 0:
        while True:
            nested[0].rmdir()
            nested[0].mkdir()
    try:
        results = {handle.processes()[0] for _ in range(3000)} | {handle.call("kill") for _ in range(300)}
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert results == {0}


def test_what_is_no_cgroup_is_refused(group: Group, tmp_path: Path) -> None:
    before = open_descriptors()
    wrong = [
        (Handle(group.directory / "absent", group.cpuacct), errno.ENOENT),
        (Handle(tmp_path, group.cpuacct), errno.EINVAL),
        (Handle(group.directory, tmp_path), errno.EINVAL),
        (Handle(group.directory.parent, group.cpuacct and group.cpuacct.parent), errno.ENOENT),
        (Handle(group.directory, None if group.version == 1 else group.directory), errno.EINVAL),
    ]
    if group.cpuacct:
        wrong.append((Handle(group.cpuacct, group.directory), errno.ENOENT))
        wrong.append((Handle(group.directory, group.directory), errno.ENOENT))
    assert [made.opened for made, _ in wrong] == [-code for _, code in wrong]
    assert all(made.struct.descriptors() == set() for made, _ in wrong)
    assert open_descriptors() == before


def test_descriptors_are_the_processs_own_and_closed_with_the_handle(group: Group) -> None:
    before = open_descriptors()
    handle = Handle(group.directory, group.cpuacct)
    descriptors = handle.struct.descriptors()
    assert len(descriptors) >= 3
    assert all(fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC for fd in descriptors)
    handle.close()
    assert handle.struct.descriptors() == set()
    assert open_descriptors() == before


def test_what_an_aborted_run_left_is_removed(group: Group) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    base = group.directory.parent
    left = base / f"rowen-test-{ended.pid}"
    (left / "inner").mkdir(parents=True)
    sweep([base])
    assert not left.exists()

"""How much CPU time a pod may use: the kernel's own limit, read, lowered and given back."""

import errno
import os
from pathlib import Path

import pytest
from agent_cgroup.rig import Group, Handle
from descriptors import open_descriptors
from gate.rig import until

GONE = (-errno.ENOENT, -errno.ENODEV)
NONE, LOW = (-1, 100_000), (3000, 10_000)


def of_version(number: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("group", [(number, True)], ids=[f"v{number}"], indirect=True)


def _files(directory: Path | None) -> tuple[int, int]:
    """As the kernel shows it, without the code under test."""
    assert directory is not None
    quota, period = ((directory / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
    return int(quota), int(period)


def _throttled(directory: Path | None) -> int:
    assert directory is not None
    return int(dict(line.split() for line in (directory / "cpu.stat").read_text().splitlines())["nr_throttled"])


@of_version(1)
def test_a_limit_is_read_lowered_and_given_back(group: Group) -> None:
    handle = group.handle()
    assert handle.limit() == (0, *NONE)
    for limit in (LOW, (250_000, 50_000), (1000, 1000), (1000, 1_000_000), LOW, NONE):
        assert handle.set_limit(*limit) == 0
        assert (handle.limit(), _files(group.cpu)) == ((0, *limit), limit)


@of_version(1)
def test_a_weight_is_read_raised_and_given_back(group: Group) -> None:
    handle, shares = group.handle(), (group.cpu or Path()) / "cpu.shares"
    assert handle.weight() == (0, 1024)
    for weight, found in ((300, 300), (0, 262_144), (1024, 1024)):
        assert handle.set_weight(weight) == 0
        assert (handle.weight(), int(shares.read_text())) == ((0, found), found)


@of_version(2)
def test_the_greatest_weight_of_version_2(group: Group, tmp_path: Path) -> None:
    handle, stand_in = group.handle(), tmp_path / "cpu.weight"
    stand_in.write_text("100\n")
    if handle.struct.weight >= 0:
        os.close(handle.struct.weight)
    handle.struct.weight = os.open(stand_in, os.O_RDWR | os.O_CLOEXEC)
    assert handle.weight() == (0, 100)
    assert handle.set_weight(0) == 0
    assert stand_in.read_text() == "10000"


@of_version(1)
def test_programs_are_held_to_it_until_it_is_given_back(group: Group) -> None:
    handle = group.handle()
    group.run("1")
    group.advances()
    assert _throttled(group.cpu) == 0
    assert handle.set_limit(*LOW) == 0
    until(lambda: _throttled(group.cpu) > 2, "the kernel has held it back")
    group.advances()
    assert handle.set_limit(*NONE) == 0
    before = _throttled(group.cpu)
    used = handle.usage()
    until(lambda: handle.usage() > used + 100_000_000, "it runs on")
    assert _throttled(group.cpu) == before


@of_version(1)
def test_one_that_is_held_back_is_frozen_and_let_go_as_ever(group: Group) -> None:
    handle = group.handle()
    group.run("4")
    group.advances(4)
    assert handle.set_limit(1000, 1_000_000) == 0
    until(lambda: _throttled(group.cpu) > 0, "the kernel has held it back")
    handle.freeze()
    assert handle.set_limit(*NONE) == 0
    assert handle.call("thaw") == 0
    group.advances(4)


@of_version(1)
@pytest.mark.parametrize("limit", [(999, 10_000), (3000, 999), (3000, 1_000_001), (0, 100_000)])
def test_what_the_kernel_does_not_take_is_said(group: Group, limit: tuple[int, int]) -> None:
    assert group.handle().set_limit(*limit) == -errno.EINVAL


@of_version(1)
def test_one_below_the_limit_of_a_container_is_refused_and_can_be_given_back(group: Group) -> None:
    handle = group.handle()
    assert handle.set_limit(80_000, 100_000) == 0
    container = group.nested("container")[2]
    (container / "cpu.cfs_quota_us").write_text("50000")
    assert handle.set_limit(*LOW) == -errno.EINVAL
    assert handle.set_limit(80_000, 100_000) == 0
    assert _files(group.cpu) == (80_000, 100_000)
    assert handle.set_limit(6000, 10_000) == 0
    assert _files(container) == (50_000, 100_000)


def test_without_the_controller_s_directory_nothing_can_be_limited(group: Group) -> None:
    handle = Handle(group.directory, group.cpuacct)
    assert handle.opened == 0
    if group.version == 1 or not (group.directory / "cpu.max").exists():
        assert handle.limit()[0] == handle.set_limit(*LOW) == -errno.ENOTSUP
        assert handle.weight()[0] == handle.set_weight(0) == -errno.ENOTSUP
    handle.close()


@of_version(1)
@pytest.mark.parametrize("missing", ["absent", "cpuacct"])
def test_a_directory_that_is_none_of_the_controller_is_as_good_as_none(group: Group, missing: str) -> None:
    assert group.cpuacct is not None
    before = open_descriptors()
    handle = Handle(group.directory, group.cpuacct, group.cpuacct if missing == "cpuacct" else Path("/absent"))
    assert handle.opened == 0
    assert (handle.struct.quota, handle.struct.period, handle.struct.weight) == (-1, -1, -1)
    assert handle.limit()[0] == -errno.ENOTSUP
    handle.close()
    assert open_descriptors() == before


@of_version(1)
def test_descriptors_are_closed_with_the_handle(group: Group) -> None:
    before = open_descriptors()
    handle = Handle(group.directory, group.cpuacct, group.cpu)
    assert {handle.struct.quota, handle.struct.period, handle.struct.weight} <= handle.struct.descriptors()
    assert not any(os.get_inheritable(fd) for fd in handle.struct.descriptors())
    handle.close()
    assert (handle.struct.descriptors(), open_descriptors()) == (set(), before)


@of_version(1)
def test_one_that_is_gone_is_said_to_be(group: Group) -> None:
    handle = group.handle()
    for directory in group.directories:
        directory.rmdir()
    assert handle.limit()[0] in GONE
    assert handle.set_limit(*LOW) in GONE


# Version 2: no cgroup of this machine has cpu.max, as version 1 has the controller. A plain file STANDS IN for it: what
# is read and written is checked, not what the kernel makes of it.


@pytest.fixture
def second(group: Group, tmp_path: Path) -> tuple[Handle, Path]:
    """A handle of version 2 whose cpu.max is the stand-in."""
    handle = group.handle()
    stand_in = tmp_path / "cpu.max"
    stand_in.touch()
    if handle.struct.quota >= 0:
        os.close(handle.struct.quota)
    handle.struct.quota = os.open(stand_in, os.O_RDWR | os.O_CLOEXEC)
    return handle, stand_in


@of_version(2)
@pytest.mark.parametrize(
    ("text", "limit"),
    [("max 100000\n", NONE), ("3000 10000\n", LOW), ("250000 50000\n", (250_000, 50_000)), ("max 50000", (-1, 50_000))],
)
def test_version_2_is_read_from_one_line(second: tuple[Handle, Path], text: str, limit: tuple[int, int]) -> None:
    handle, stand_in = second
    stand_in.write_text(text)
    assert handle.limit() == (0, *limit)


@of_version(2)
@pytest.mark.parametrize("text", ["", "max", "3000\n", "max 0\n", "\n"])
def test_a_line_that_the_kernel_does_not_write_is_no_limit(second: tuple[Handle, Path], text: str) -> None:
    handle, stand_in = second
    stand_in.write_text(text)
    assert handle.limit()[0] == -errno.EPROTO


@of_version(2)
@pytest.mark.parametrize(("limit", "text"), [(LOW, "3000 10000"), (NONE, "max 100000"), ((-1, 5000), "max 5000")])
def test_version_2_is_written_at_once(second: tuple[Handle, Path], limit: tuple[int, int], text: str) -> None:
    handle, stand_in = second
    assert handle.set_limit(*limit) == 0
    assert stand_in.read_text() == text

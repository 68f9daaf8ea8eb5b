"""The process's side of its memory: which files it takes, and what it does where there is not enough memory."""

import ctypes
import errno
import fcntl
import mmap
import os
import struct
import time
from pathlib import Path

import pytest
from memory.arena.kernel import active_file_bytes, huge_pages, memory_group
from memory.members import admit, held_bytes, quarantine

from rowen.node_agent.memory.pool_status import Kind
from rowen.runtime.memory.native_arena import NativeArena

BYTES = 65536
HUGE = 2 << 20
SIZE = 192
MAGIC = 0x414E4552414E574F
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


def file(content: bytes, size: int, seals: int = SEALS) -> int:
    descriptor = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.write(descriptor, content)
    os.truncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


def page(magic=MAGIC, size=SIZE, handle_bytes=BYTES, capacity=4, length=SIZE + 4 * 4, seals=SEALS):
    return file(struct.pack("<QIIQII", magic, size, 0, handle_bytes, capacity, 0), length, seals)


def memory(size=4 * BYTES, seals=SEALS):
    return file(b"", size, seals)


@pytest.mark.parametrize(
    ("arena", "pool_memory"),
    [
        (page, memory),
        (lambda: page(size=SIZE + 64, length=SIZE + 64 + 16), memory),
        (lambda: page(length=1 << 16), lambda: memory(8 * BYTES)),
        (lambda: page(handle_bytes=mmap.PAGESIZE), memory),
    ],
    ids=["exact", "newer page", "more than needed", "smallest handles"],
)
def test_files_that_fit_are_opened(library, arena, pool_memory):
    files = arena(), pool_memory()
    opened = NativeArena(library, *files)
    for descriptor in files:
        os.close(descriptor)
    assert (opened.capacity, opened.grant, opened.map([1])) == (4, 0, 0)


@pytest.mark.parametrize(
    ("arena", "pool_memory"),
    [
        (lambda: page(seals=fcntl.F_SEAL_SHRINK), memory),
        (lambda: page(seals=fcntl.F_SEAL_GROW), memory),
        (page, lambda: memory(seals=fcntl.F_SEAL_SHRINK)),
        (page, lambda: memory(seals=fcntl.F_SEAL_GROW)),
    ],
)
def test_files_that_may_shrink_or_grow_are_refused(library, arena, pool_memory):
    with pytest.raises(PermissionError, match="cannot open the arena"):
        NativeArena(library, arena(), pool_memory())


@pytest.mark.parametrize(
    "settings",
    [
        {"magic": MAGIC + 1},
        {"size": SIZE - 4},
        {"size": SIZE + 4},
        {"size": SIZE + 2, "length": SIZE + 64},
        {"length": SIZE + 4 * 4 - 1},
        {"length": SIZE - 1},
        {"length": 8},
        {"capacity": 0},
        {"capacity": 5, "length": SIZE + 5 * 4},
        {"capacity": 32769, "handle_bytes": mmap.PAGESIZE, "length": SIZE + 4 * 32769},
        {"handle_bytes": 0},
        {"handle_bytes": BYTES - 1},
        {"handle_bytes": 3 * mmap.PAGESIZE},
        {"handle_bytes": mmap.PAGESIZE // 2},
    ],
    ids=str,
)
def test_files_of_another_layout_are_refused(library, settings):
    size = 32769 * mmap.PAGESIZE if settings.get("capacity") == 32769 else 4 * BYTES
    with pytest.raises(OSError) as caught:
        NativeArena(library, page(**settings), memory(size))
    assert caught.value.errno == errno.EPROTO


def test_as_many_handles_as_there_may_be(library):
    capacity = 32768
    arena = NativeArena(
        library,
        page(capacity=capacity, handle_bytes=mmap.PAGESIZE, length=SIZE + 4 * capacity),
        memory(capacity * mmap.PAGESIZE),
    )
    arena.buffer[-1] = 1
    assert arena.capacity == capacity


def test_files_that_are_no_memory_are_refused(library, tmp_path):
    with (tmp_path / "file").open("w+b") as other, pytest.raises(OSError):
        NativeArena(library, page(), other.fileno())


def test_a_member_cannot_keep_the_agent_from_punching(make_pool):
    admission = admit(make_pool(4, BYTES), 4, 4)
    for descriptor in (admission.arena, admission.memory):
        for seal in (fcntl.F_SEAL_WRITE, 16):  # 16: against future writing
            with pytest.raises(PermissionError):
                fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seal)
        for size in (0, 1 << 30):
            with pytest.raises(PermissionError):
                os.truncate(descriptor, size)


def test_a_child_has_no_part_in_its_parents_arena(library, make_pool):
    pool = make_pool(4, BYTES)
    admission = admit(pool, 4, 4)
    arena = NativeArena(library, admission.arena, admission.memory)
    arena.map([0, 1, 2])
    pool.reclaim(admission.number, [1])
    address = ctypes.addressof(ctypes.c_char.from_buffer(arena.buffer))

    def child() -> int:
        ranges = [line.split()[0].split("-") for line in Path("/proc/self/maps").read_text().splitlines()]
        if any(int(start, 16) < address + 4 * BYTES and int(end, 16) > address for start, end in ranges):
            return 1
        if quarantine(library, arena) != 0:
            return 2
        for call in (lambda: arena.map([3]), lambda: arena.unmap([0]), arena.lost):
            try:
                call()
            except PermissionError:
                continue
            return 3
        arena.want(4)
        arena.use(4)
        return 0

    number = os.fork()
    if number == 0:
        os._exit(child())
    assert os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) == 0
    found = pool.status().of(admission.number)
    assert (found.held, found.wanted, found.used) == (2, 0, 0)
    assert quarantine(library, arena) == 0
    assert arena.lost() == [1]


def own(name: str) -> set[int]:
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        try:
            if name in str(link.readlink()):
                found.add(int(link.name))
        except FileNotFoundError:
            continue
    return found


@pytest.mark.parametrize("name", ["rowen-quarantine", "rowen-memory"])
def test_a_file_in_the_place_of_a_closed_one_is_left_alone(library, make_pool, tmp_path, name):
    pool = make_pool(4, BYTES)
    admission = admit(pool, 4, 4)
    before = own(name)
    arena = NativeArena(library, admission.arena, admission.memory)
    (kept,) = own(name) - before
    arena.map([0, 1])
    other = tmp_path / "other"
    other.write_bytes(b"x" * 4 * BYTES)
    with other.open("r+b") as opened:
        os.dup2(opened.fileno(), kept)
    if name == "rowen-quarantine":
        pool.reclaim(admission.number, [1])
        assert quarantine(library, arena) == -errno.EBADF
    else:
        assert arena.map([2]) == 0
    arena.unmap([0])
    arena.buffer[:] = bytes(4 * BYTES)
    os.close(kept)
    assert other.read_bytes() == b"x" * 4 * BYTES


@pytest.mark.parametrize("view", ["own", "inner", "container"])
def test_memory_beyond_the_pods_limit_is_not_granted(make_pool, start_member, view):
    """The kernel does not refuse it, it kills."""
    bytes_ = 1 << 20
    with memory_group(32 * bytes_, view) as enter:
        pool = make_pool(64, bytes_)
        admission = admit(pool, 64, 64)
        member = start_member(admission, 1, *enter)
        count = member.ask("map", *range(64))
        assert 8 <= count < 32
        found = pool.status().of(admission.number)
        assert (found.held, found.really_held) == (count, count)
        assert member.ask("map", 63) == 0
        assert member.ask("unmap", 0) == 0
        assert member.ask("map", 63) == 1
        member.kill()
        pool.dismiss(admission.number)


def test_files_that_are_read_again_and_again_take_no_memory_from_the_pool(make_pool, start_member, tmp_path):
    """Such as a model's: the kernel drops their pages before it kills."""
    bytes_ = 1 << 20
    with memory_group(64 * bytes_, "own") as enter:
        pool = make_pool(64, bytes_)
        admission = admit(pool, 64, 64)
        path = tmp_path / "weights"
        # The group's first access is what is charged to it.
        read = f"head -c {40 * bytes_} /dev/zero > {path} && sync {path} && cat {path} {path} {path} > /dev/null"
        member = start_member(admission, 1, *enter, "sh", "-c", f'{read} && exec "$0" "$@"')
        if active_file_bytes() < 32 * bytes_:
            pytest.skip("pages of files do not age here")
        assert 40 <= member.ask("map", *range(64)) < 64
        member.ask("fill", 39, 9)
        assert member.text("show", 39) == "9"
        member.kill()
        pool.dismiss(admission.number)


def test_huge_pages_that_are_not_there_are_not_granted(make_pool, start_member):
    with huge_pages(8):
        pool = make_pool(8, HUGE, huge=True)
        assert pool.status().page_bytes == HUGE
        admission = admit(pool, 8, 8)
        member = start_member(admission)
        stolen = admit(pool, 8, 0, Kind.ONLINE)
        os.posix_fallocate(stolen.memory, 0, 3 * HUGE)
        assert member.ask("map", *range(8)) == 5
        assert held_bytes(admission) == 5 * HUGE
        member.ask("fill", 4, 9)
        assert (member.text("show", 4), member.text("show", 5)) == ("9", "0")
        pool.dismiss(stolen.number)
        assert member.ask("map", 5, 6, 7) == 3


def test_a_pool_without_enough_huge_pages_is_of_plain_ones(make_pool):
    with huge_pages(8):
        assert make_pool(8, HUGE, huge=False).status().page_bytes == mmap.PAGESIZE
        assert make_pool(9, HUGE, huge=True).status().page_bytes == mmap.PAGESIZE
        assert make_pool(4, 2 * HUGE, huge=True).status().page_bytes == HUGE
        assert make_pool(5, 2 * HUGE, huge=True).status().page_bytes == mmap.PAGESIZE
        assert make_pool(1, HUGE // 2, huge=True).status().page_bytes == mmap.PAGESIZE


def test_huge_pages_change_owner_under_the_threads_of_their_owner(make_pool, start_member):
    with huge_pages(8):
        pool = make_pool(8, HUGE, huge=True)
        admission = admit(pool, 8, 8)
        member = start_member(admission, 3)
        assert member.ask("storm", 1) == 0
        rounds, deadline = 0, time.monotonic() + 60
        # Whether a round takes anything depends on what the storm has mapped since the last one.
        while rounds < 30 or (member.ask("losses") == 0 and time.monotonic() < deadline):
            member.ask("park")
            pool.reclaim(admission.number, range(8))
            pool.settle()
            assert member.ask("go") == 0
            pool.grant(admission.number, 8)
            rounds += 1
        foreign, _, losses = map(int, member.text("calm").split())
        assert foreign == 0 < losses
        assert held_bytes(admission) == 0
        member.kill()
        pool.dismiss(admission.number)

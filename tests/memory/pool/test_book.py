"""What an agent lent is not free for the next one, before those who have it have come, or ended."""

import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rowen.node_agent.memory.owners import owners
from rowen.node_agent.memory.pool import Pool
from rowen.node_agent.memory.pool_status import Kind
from rowen.runtime.memory.native_arena import NativeArena

BYTES = mmap.PAGESIZE


@pytest.fixture
def book(tmp_path):
    return tmp_path / "pool.book"


@pytest.fixture
def other():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def keeping(make_pool, book, handles=10):
    pool = make_pool(handles, BYTES)
    pool.keep(book)
    return pool


def lend(pool, pid, grant, kind=Kind.OFFLINE):
    admission = pool.admit(kind, 10)
    pool.name(admission.number, pid)
    assert pool.grant(admission.number, grant) == grant
    return Files(os.dup(admission.arena), os.dup(admission.memory))


def adopt(pool, had):
    number = pool.adopt(Kind.OFFLINE, os.getpid(), *had.files)
    return pool.status().of(number)


class Files:
    """The files of a process that has not been asked yet."""

    def __init__(self, *files):
        self.files = files


def test_what_the_last_pool_lent_is_not_free_before_it_is_handed_over(make_pool, book, library):
    last = keeping(Pool, book)
    had = lend(last, os.getpid(), 4)
    arena = NativeArena(library, *had.files)
    assert arena.map(range(3)) == 3
    last.close()
    pool = keeping(make_pool, book)
    assert pool.status().free == 6
    found = adopt(pool, had)
    assert (found.granted, found.overdrawn) == (3, 0)
    assert pool.status().free == 7


def test_a_process_gets_what_it_held_though_others_have_taken_all_the_rest(make_pool, book, library):
    last = keeping(Pool, book)
    had = lend(last, os.getpid(), 4)
    assert NativeArena(library, *had.files).map(range(4)) == 4
    last.close()
    pool = keeping(make_pool, book)
    newcomer = pool.admit(Kind.ONLINE, 10)
    assert pool.grant(newcomer.number, 10) == 6
    assert (adopt(pool, had).granted, pool.status().free) == (4, 0)


@pytest.mark.parametrize("cut", [False, True])
def test_what_a_process_had_beyond_its_grant_is_not_lent_to_it(make_pool, book, library, cut):
    """Unless the last agent was of a release that wrote down only what a process owned."""
    last = keeping(Pool, book)
    had = lend(last, os.getpid(), 6)
    os.posix_fallocate(had.files[1], 0, 8 * BYTES)
    with mmap.mmap(had.files[0], 0) as page:
        page[192 : 192 + 8 * 4] = (1).to_bytes(4, "little") * 8
    assert (last.status().of(1).owned, last.status().of(1).overdrawn) == (8, 2)
    last.close()
    if cut:
        os.truncate(book, 16 + 24 * 512)
    found = adopt(keeping(make_pool, book), had)
    assert (found.owned, found.granted, found.overdrawn) == ((8, 8, 0) if cut else (8, 6, 2))


def test_who_ended_meanwhile_owns_nothing(make_pool, book, other):
    last = keeping(Pool, book)
    lend(last, other.pid, 4)
    last.close()
    other.kill()
    other.wait()
    assert keeping(make_pool, book).status().free == 10


def test_who_ends_without_having_come_owns_nothing_any_more(make_pool, book, other):
    last = keeping(Pool, book)
    lend(last, other.pid, 4)
    last.close()
    pool = keeping(make_pool, book)
    assert pool.status().free == 6
    other.kill()
    other.wait()
    pool.serve(1e9, offline_stopped=False)
    assert pool.status().free == 10


def test_a_process_of_another_program_owns_nothing(make_pool, book, other):
    last = keeping(Pool, book)
    lend(last, other.pid, 4)
    last.close()
    pool = keeping(make_pool, book)
    pool.forget(other.pid + 1)
    assert pool.status().free == 6
    pool.forget(other.pid)
    assert pool.status().free == 10


def test_another_process_with_the_same_number_owns_nothing(make_pool, book, other):
    last = keeping(Pool, book)
    lend(last, other.pid, 4)
    last.close()
    data = bytearray(book.read_bytes())
    data[16 + 8 : 16 + 16] = (1).to_bytes(8, "little")
    book.write_bytes(data)
    assert keeping(make_pool, book).status().free == 10


def test_what_was_given_back_or_dismissed_is_written_down(make_pool, book, other):
    last = keeping(Pool, book)
    lend(last, other.pid, 4)
    lend(last, os.getpid(), 3)
    last.grant(1, 2)
    last.dismiss(2)
    last.close()
    assert keeping(make_pool, book).status().free == 8


def absent(pool, memory_bytes=10 * BYTES):
    owned = owners(pool.status(), memory_bytes)
    return owned.online_used_bytes // BYTES, owned.online_ahead_bytes // BYTES, owned.offline_bytes // BYTES


def test_what_an_engine_has_is_an_engine_s_before_it_is_handed_over(make_pool, book, other, library):
    last = keeping(Pool, book)
    lend(last, other.pid, 3)
    had = lend(last, os.getpid(), 4, Kind.ONLINE)
    assert NativeArena(library, *had.files).map(range(4)) == 4
    last.close()
    pool = keeping(make_pool, book)
    assert absent(pool) == (4, 0, 3)
    pool.adopt(Kind.ONLINE, os.getpid(), *had.files)
    assert absent(pool) == (0, 4, 3)
    pool.forget(other.pid)
    assert absent(pool) == (0, 4, 0)


def test_a_book_that_does_not_say_what_a_process_is_says_what_it_owns(make_pool, book, other):
    """One of a release that wrote 0 in that place."""
    last = keeping(Pool, book)
    lend(last, other.pid, 4, Kind.ONLINE)
    last.close()
    data = bytearray(book.read_bytes())
    assert data[16 + 20 : 16 + 24] == Kind.ONLINE.to_bytes(4, "little")
    data[16 + 20 : 16 + 24] = bytes(4)
    book.write_bytes(data)
    pool = keeping(make_pool, book)
    assert (pool.status().free, absent(pool)) == (6, (0, 0, 4))


def test_a_book_of_something_else_is_begun_anew(make_pool, book):
    book.write_bytes(os.urandom(1 << 14))
    assert keeping(make_pool, book).status().free == 10


def test_a_book_that_cannot_be_written_is_told(make_pool, tmp_path):
    with pytest.raises(OSError, match=r"none/book"):
        make_pool(1, BYTES).keep(Path(tmp_path) / "none" / "book")

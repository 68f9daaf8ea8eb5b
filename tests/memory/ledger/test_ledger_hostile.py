"""The agent's choice by a ledger that holds anything at all."""

import os
import random
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from choice.chooser import Choice, Chooser
from memory.ledger.ledger_rig import Rig, ledger_rig

from rowen.node_agent.native import library_path

CAPACITY, OWNERS = 500, 40
HEADER = struct.Struct("<QIIIII")
"""Magic, size, features, capacity, owners, chunks: what only the agent writes, but any process can."""
USED_AT, HEADER_BYTES = 64, 128


def size(rig: Rig) -> int:
    return os.fstat(rig.descriptor).st_size


def words(values: list[int]) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def random_bytes(source: random.Random, count: int) -> bytes:
    return source.randbytes(count)


def small_numbers(source: random.Random, count: int) -> bytes:
    """Mostly in range or just outside it: owners and handles that are listed again and again."""
    return words([source.choice([0, 1, 2, OWNERS, OWNERS + 1, CAPACITY, CAPACITY + 1]) for _ in range(count // 4)])


def numbers(source: random.Random, count: int) -> bytes:
    return words([source.randrange(CAPACITY + 2) for _ in range(count // 4)])


def ones(_: random.Random, count: int) -> bytes:
    return b"\xff" * count


def one_handle(_: random.Random, count: int) -> bytes:
    return words([1] * (count // 4))


def check(choice: Choice, eligible: list[int], wanted: int) -> None:
    """As many as there are, each once, in their order."""
    assert len(choice.handles) == min(wanted, len(eligible))
    places = [eligible.index(handle) for handle in choice.handles]
    assert places == sorted(set(places))
    assert choice.owners <= OWNERS
    assert choice.tokens <= OWNERS * (2**32 - 1)
    assert choice.unknown <= len(choice.handles)


@pytest.mark.parametrize("content", [random_bytes, small_numbers, numbers, ones, one_handle])
def test_any_content_leads_to_a_choice(content: Callable[[random.Random, int], bytes]) -> None:
    source = random.Random(6)
    with ledger_rig(CAPACITY, OWNERS) as rig:
        for _ in range(40):
            os.pwrite(rig.descriptor, content(source, size(rig) - USED_AT), USED_AT)
            os.pwrite(rig.descriptor, words([source.choice([2**32 - 1, source.randrange(700)])]), USED_AT)
            eligible = source.sample(range(CAPACITY), source.randrange(CAPACITY))
            for wanted in (0, 1, 100, CAPACITY):
                check(rig.chooser.choose(eligible, wanted), eligible, wanted)


def test_a_ledger_of_zeros_is_an_empty_one() -> None:
    with ledger_rig(CAPACITY, OWNERS) as rig:
        rig.tell({owner: (5, range(CAPACITY)) for owner in range(OWNERS)})
        os.pwrite(rig.descriptor, bytes(size(rig) - HEADER_BYTES), HEADER_BYTES)
        choice = rig.chooser.choose(range(CAPACITY), 3)
    assert (choice.handles, choice.tokens, choice.unknown) == ([0, 1, 2], 0, 0)


def test_a_header_that_changes_later_changes_nothing() -> None:
    with ledger_rig(CAPACITY, OWNERS) as rig:
        rig.tell({0: (5, [0])})
        os.pwrite(rig.descriptor, b"\xff" * HEADER.size, 0)
        assert rig.chooser.choose([0, 1], 1).handles == [1]
        assert rig.chooser.choose([0], 1).tokens == 5


@pytest.mark.parametrize("field", [(8, 0), (8, 127), (8, 2**32 - 1), (8, 4096), (24, 2**32 - 1), (24, 100_000), (0, 0)])
def test_a_header_that_does_not_fit_the_file_is_refused(field: tuple[int, int]) -> None:
    at, value = field
    with ledger_rig(CAPACITY, OWNERS) as rig:
        os.pwrite(rig.descriptor, words([value]), at)
        with pytest.raises(OSError, match="cannot choose by this ledger"):
            Chooser(rig.descriptor, CAPACITY, OWNERS)


def test_a_file_that_could_shrink_is_refused() -> None:
    with ledger_rig(CAPACITY, OWNERS) as rig:
        copy = os.memfd_create("copy", os.MFD_ALLOW_SEALING)
        try:
            os.pwrite(copy, os.pread(rig.descriptor, size(rig), 0), 0)
            with pytest.raises(OSError, match="cannot choose by this ledger"):
                Chooser(copy, CAPACITY, OWNERS)
        finally:
            os.close(copy)


BUSY = """
import ctypes, random, sys
from rowen.runtime.memory.ledger import NativeLedger
ledger = NativeLedger(ctypes.CDLL(sys.argv[1]), int(sys.argv[2]))
source = random.Random(7)
ledger.charge({"constant": 1000})
ledger.add("constant", [0])
print("ready", flush=True)
while True:
    owner = source.randrange(60)
    ledger.charge({owner: source.randrange(1000)})
    ledger.add(owner, source.sample(range(1, 500), 200))
    ledger.remove(owner, source.sample(range(1, 500), 100))
    ledger.drop(source.randrange(60))
"""


@contextmanager
def busy_process(descriptor: int) -> Iterator[int]:
    """A process that changes its ledger all the time; yields its id."""
    arguments = [sys.executable, "-c", BUSY, str(library_path()), str(descriptor)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, pass_fds=[descriptor], text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        try:
            yield child.pid
        finally:
            child.kill()


def test_a_process_that_stands_still_in_the_middle_of_a_change() -> None:
    source = random.Random(8)
    with ledger_rig(CAPACITY, OWNERS) as rig, busy_process(rig.descriptor) as child:
        for _ in range(200):
            os.kill(child, signal.SIGSTOP)
            os.waitpid(child, os.WUNTRACED)
            eligible = source.sample(range(1, CAPACITY), 400)
            choice = rig.chooser.choose([0, *eligible], 300)
            check(choice, [0, *eligible], 300)
            # Nothing moves meanwhile, and what is not being changed is there.
            assert rig.chooser.choose([0, *eligible], 300) == choice
            assert rig.chooser.choose([0], 1).tokens == 1000
            os.kill(child, signal.SIGCONT)

"""Fixtures: pools of memory, and members of them."""

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from memory.members import Process, build_member

from rowen.node_agent.memory.pool import Admission, Pool
from rowen.node_agent.native import library_path


@pytest.fixture(scope="session")
def member_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_member(tmp_path_factory.mktemp("member"))


@pytest.fixture(scope="session")
def library() -> ctypes.CDLL:
    found = ctypes.CDLL(str(library_path()))
    found.rowen_arena_quarantine.argtypes = [ctypes.c_void_p]
    return found


@pytest.fixture
def make_pool() -> Iterator[Callable[..., Pool]]:
    """Makes pools; when the test ends their members' memory is freed."""
    pools: list[Pool] = []

    def make(*arguments: Any, **settings: Any) -> Pool:
        pools.append(Pool(*arguments, **settings))
        return pools[-1]

    yield make
    for pool in pools:
        for member in pool.status().members:
            pool.dismiss(member.number)
        pool.close()


@pytest.fixture
def start_member(member_program: Path) -> Iterator[Callable[..., Process]]:
    """Starts members as processes; they are killed when the test ends."""
    started: list[Process] = []

    def start(admission: Admission, tag: int = 1, *before: str) -> Process:
        started.append(Process(member_program, admission, tag, *before))
        return started[-1]

    yield start
    for member in started:
        member.kill()

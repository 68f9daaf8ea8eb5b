"""The part of the device's pool that a process has."""

import pytest
from memory.local_arena import LocalArena

from rowen.runtime import device_memory, native
from rowen.runtime.device_memory import open_part
from rowen.runtime.memory.part import PoolPart


def opened(monkeypatch: pytest.MonkeyPatch, capacity: int, pool_bytes: int) -> PoolPart:
    monkeypatch.setenv("ROWEN_POOL_BYTES", str(pool_bytes))
    arena = LocalArena(capacity, 4096)
    monkeypatch.setattr(device_memory.native, "memory", lambda: native.Memory(arena, None))
    part = open_part(0)
    assert part is not None
    return part


def test_it_is_what_memory_limit_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    part = opened(monkeypatch, 16, 8 * 4096 + 4095)
    assert (part.handles, part.bytes, part.asked_bytes) == (8, 32768, None)
    assert part.in_words == "memoryLimit leaves 32Ki of the device's pool"


@pytest.mark.parametrize("capacity", [1, 7])
def test_it_is_no_more_than_the_arena_that_the_agent_gives(monkeypatch: pytest.MonkeyPatch, capacity: int) -> None:
    part = opened(monkeypatch, capacity, 8 * 4096)
    assert (part.handles, part.bytes, part.asked_bytes) == (capacity, capacity * 4096, 32768)
    assert part.in_words == f"the device's pool has {4 * capacity}Ki, although memoryLimit leaves 32Ki"
    assert "memoryLimit" not in part.remedy

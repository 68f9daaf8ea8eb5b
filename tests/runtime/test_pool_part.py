"""How much of the device's pool a process may have, in bytes and in words."""

from types import SimpleNamespace
from typing import Any

from rowen.runtime.memory.part import PoolPart

MIB = 2**20
ARENA: Any = SimpleNamespace(handle_bytes=2 * MIB)


def test_it_is_so_many_handles() -> None:
    assert PoolPart(ARENA, 3).bytes == 6 * MIB
    assert PoolPart(ARENA, 0).bytes == 0


def test_where_the_limit_leaves_it_the_limit_can_be_raised() -> None:
    part = PoolPart(ARENA, 3)
    assert part.in_words == "memoryLimit leaves 6Mi of the device's pool"
    assert part.remedy == "raise memoryLimit"


def test_where_the_device_has_less_than_the_limit_leaves_another_device_helps() -> None:
    part = PoolPart(ARENA, 3, asked_bytes=16 * MIB)
    assert part.in_words == "the device's pool has 6Mi, although memoryLimit leaves 16Mi"
    assert part.remedy == "take a device with more memory"

"""A device that is too small for what an engine may have of its pool."""

import pytest

from rowen.node_agent.memory.shortage import shortage

GIB = 2**30


@pytest.mark.parametrize(("fixed", "pool"), [(2, 6), (8, 0), (0, 8), (1, 1)])
def test_a_device_that_holds_both_lacks_nothing(fixed: int, pool: int) -> None:
    assert shortage("gpu0", 8 * GIB, fixed * GIB, pool * GIB) is None


def test_what_is_missing_is_told_with_all_amounts() -> None:
    assert shortage("gpu0", 8 * GIB, 2 * GIB, 7 * GIB) == (
        "memoryLimit, 9Gi, is above the memory of device gpu0, 8Gi: the engine may have 7Gi of its pool and can get "
        "6Gi at most; lower memoryLimit, or give the device more memory"
    )


def test_a_byte_too_much_is_too_much() -> None:
    assert shortage("gpu0", 8 * GIB, 2 * GIB, 6 * GIB + 1) is not None


def test_a_device_that_does_not_even_hold_the_fixed_part_has_nothing_to_lend() -> None:
    told = shortage("gpu0", 2 * GIB, 3 * GIB, 1 * GIB)
    assert told is not None
    assert "the engine may have 1Gi of its pool and can get 0 at most" in told

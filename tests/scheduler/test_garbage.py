"""Garbage waits until a pass is over."""

import gc

import pytest

from rowen.scheduler import garbage


def test_garbage_waits_until_the_end_whatever_happens() -> None:
    assert gc.isenabled()
    with garbage.kept():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ValueError, match="wrong"), garbage.kept():
        raise ValueError("wrong")
    assert gc.isenabled()

"""What a trainer of one's own may tell."""

import ctypes
import importlib
import math
from typing import Any

import numpy
import pytest

progress = importlib.import_module("rowen.runtime.progress")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """What reaches the device, through a call as the library has it."""
    calls: list[tuple[int, ...]] = []
    numbers = [ctypes.c_uint64] * 3
    device = type("Device", (), {"progress": ctypes.CFUNCTYPE(None, *numbers)(lambda *call: calls.append(call))})
    monkeypatch.setattr(progress, "tenant", lambda: device)
    return calls


@pytest.mark.parametrize("kind", [int, float, numpy.int64, numpy.float32])
def test_a_number_of_any_kind_is_told(kind: Any, told: list[tuple[int, ...]]) -> None:
    progress.progress(kind(1), kind(10), kind(2048))
    assert told == [(1, 10, 2048)]


@pytest.mark.parametrize("wrong", [-1, math.inf, math.nan])
def test_what_is_no_number_of_units_is_refused(wrong: float, told: list[tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match=r"progress\(.*\): expected numbers from 0 on"):
        progress.progress(1, wrong, 0)
    assert told == []

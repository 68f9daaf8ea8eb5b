"""Fixtures: devices whose pods' CPU time can be limited."""

from collections.abc import Callable
from functools import partial

import pytest
from gate.rig import Rig


@pytest.fixture
def make_rig(make_rig: Callable[..., Rig]) -> Callable[..., Rig]:
    return partial(make_rig, limited=True)


@pytest.fixture
def rig(make_rig: Callable[..., Rig]) -> Rig:
    return make_rig()

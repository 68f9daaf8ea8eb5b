"""Fixtures: devices in shared memory."""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gate.rig import Rig


@pytest.fixture
def make_rig() -> Iterator[Callable[..., Rig]]:
    """Makes devices; everything that runs on them is ended afterwards."""
    rigs: list[Rig] = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:

        def make(**settings: Any) -> Rig:
            settings.setdefault("cpus", (max(os.sched_getaffinity(0)),))
            rig = Rig(Path(folder) / str(len(rigs)), **settings)
            rigs.append(rig)
            return rig

        yield make
        for rig in rigs:
            rig.close()


@pytest.fixture
def rig(make_rig: Callable[..., Rig]) -> Rig:
    return make_rig()

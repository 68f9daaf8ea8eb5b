"""Fixtures: a tiny model, data, and an agent."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from riding_tuner.matchmaker import Matchmaker
from runtime.conftest import dataset, tiny_model

__all__ = ["dataset", "tiny_model"]


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder whose name is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="ride-") as folder:
        yield Path(folder)


@pytest.fixture
def agent(sockets: Path) -> Iterator[Matchmaker]:
    with Matchmaker(sockets) as agent:
        yield agent

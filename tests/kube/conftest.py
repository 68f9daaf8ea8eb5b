"""Fixtures of the tests of rowen.kube."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kube.odd import Odd, served

from rowen.kube.client import Client


@pytest.fixture
async def odd(tmp_path: Path) -> AsyncIterator[Odd]:
    async with served(tmp_path) as server:
        yield server


@pytest.fixture
async def odd_client(odd: Odd) -> AsyncIterator[Client]:
    async with await odd.client() as client:
        yield client

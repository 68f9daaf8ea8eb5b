"""Fixtures of the tests of rowen.kube."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kube.follow import THINGS
from kube.odd import Odd, served

from rowen.kube import informer as module
from rowen.kube.client import Client
from rowen.kube.informer import Informer
from rowen.kube.listing import version_of


@pytest.fixture
async def odd(tmp_path: Path) -> AsyncIterator[Odd]:
    async with served(tmp_path) as server:
        yield server


@pytest.fixture
async def odd_client(odd: Odd) -> AsyncIterator[Client]:
    async with await odd.client() as client:
        yield client


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BREATH_SECONDS", 0.01)


@pytest.fixture
def informer(odd_client: Client) -> Informer[int]:
    return Informer(odd_client, THINGS, version_of)

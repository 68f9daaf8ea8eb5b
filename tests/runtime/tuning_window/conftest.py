"""Fixtures: trainings that nobody disturbed, with everything in memory."""

from collections.abc import Iterator

import pytest
import torch
from memory.conftest import library, make_pool
from runtime.tuning_window.models import Chain, Curve, llama, train, train_chain

__all__ = ["library", "make_pool"]


@pytest.fixture(scope="session")
def plain() -> Curve:
    return train(llama())


@pytest.fixture(scope="session")
def plain_chain() -> Curve:
    return train_chain(Chain())


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> Iterator[None]:
    """On a busy machine two threads wait for each other at every sum."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)

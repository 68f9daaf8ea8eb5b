from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from coserve_training.models import make_model


@pytest.fixture(scope="package")
def model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The folder of a model of some kind, made once."""

    @cache
    def make(kind: str, dtype: torch.dtype = torch.float32) -> Path:
        return make_model(tmp_path_factory.mktemp(kind), kind, dtype)

    return make


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)

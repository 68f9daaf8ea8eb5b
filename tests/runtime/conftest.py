"""Fixtures: a tiny model, and a device that writes down what it is told."""

from pathlib import Path

import pytest
from runtime.recorder import Recorder

from rowen.demo.samples import Shape, write_model


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of two layers with a real tokenizer."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    write_model(folder, Shape(layers=2, hidden=64, intermediate=128, heads=4, key_value_heads=2))
    return folder


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()

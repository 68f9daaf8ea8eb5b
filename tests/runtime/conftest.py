"""Fixtures: a tiny model, and a device that writes down what it is told."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from gate.rig import Rig
from runtime.recorder import Recorder
from runtime.tuning_runs import Ended, spec, tune

from rowen.demo.samples import Shape, dialogues, write_lines, write_model


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of two layers with a real tokenizer."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    write_model(folder, Shape(layers=2, hidden=64, intermediate=128, heads=2, key_value_heads=1))
    return folder


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def rig() -> Iterator[Rig]:
    """A device whose gate is real."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        rig = Rig(Path(folder) / "device", cpus=(max(os.sched_getaffinity(0)),), limited=True)
        yield rig
        rig.close()


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "support.jsonl"
    write_lines(path, dialogues(20))
    return path


@pytest.fixture(scope="session")
def straight(tiny_model: Path, dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ended]:
    """The output of a fine-tuning job that nobody disturbed, and how it ended."""
    folder = tmp_path_factory.mktemp("straight")
    return folder / "out", tune(spec(tiny_model, dataset, folder / "out"), folder)

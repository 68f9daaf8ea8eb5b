"""Fixtures: a tiny model, and what became of the scenarios."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from runtime.server import environment

from rowen.demo.samples import Shape, write_model

Results = dict[str, dict[str, str | None]]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of two layers of which a token takes 512 bytes in float32."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    write_model(folder, Shape(layers=2, hidden=64, intermediate=128, heads=2, key_value_heads=1))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "dtype": "float32"}))
    return folder


@pytest.fixture(scope="session")
def results(tiny_model: Path) -> Results:
    """By mode and scenario None, or what went wrong; a scenario after one that went wrong is missing."""
    script = Path(__file__).with_name("run.py")
    ended = subprocess.run([sys.executable, script, tiny_model], capture_output=True, text=True, env=environment())
    assert ended.returncode == 0, ended.stderr[-4000:]
    found: Results = json.loads(ended.stdout.splitlines()[-1])
    return found

"""How long sequences of a model are in any engine, by its configuration."""

import json
from pathlib import Path
from typing import Any

import pytest

from rowen.crds.job.worker import ModelLocation
from rowen.runtime.batch.riding.model_length import model_length

LENGTH = {"max_position_embeddings": 4096}


@pytest.mark.parametrize(("config", "length"), [
    (LENGTH, 4096),
    (LENGTH | {"text_config": {"max_position_embeddings": 512}}, 512),
    (LENGTH | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, 4096),
    (LENGTH | {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 4096),
    (LENGTH | {"rope_scaling": {"type": "linear", "factor": 4.0}}, None),
    (LENGTH | {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}, None),
    (LENGTH | {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0}}}, None),
    (LENGTH | {"rope_parameters": {"rope_type": "default", "factor": 4.0}}, None),
    ({}, None),
    ({"max_position_embeddings": True}, None),
    ({"max_position_embeddings": "4096"}, None),
    (["no configuration"], None),
])  # fmt: skip
def test_known_where_no_engine_makes_it_longer(tmp_path: Path, config: Any, length: int | None) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert model_length(ModelLocation(name_or_path=str(tmp_path))) == length


@pytest.mark.parametrize("text", ["", "no JSON", "[" * 100_000])
def test_a_model_that_cannot_be_read_says_nothing(tmp_path: Path, text: str) -> None:
    assert model_length(ModelLocation(name_or_path=str(tmp_path / "nowhere"))) is None
    (tmp_path / "config.json").write_text(text)
    assert model_length(ModelLocation(name_or_path=str(tmp_path))) is None

"""The key-value cache takes what the weights leave."""

import json
from pathlib import Path

import pytest

from rowen.runtime.batch.memory import OVERHEAD_BYTES, cache_bytes, useful_bytes
from rowen.runtime.failure import WorkerError

CONFIG = {
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "max_position_embeddings": 8192,
}
WEIGHTS = 1000


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "model-00001.safetensors").write_bytes(bytes(WEIGHTS))
    return tmp_path


def test_it_takes_what_is_left(model: Path) -> None:
    assert cache_bytes(model, OVERHEAD_BYTES + WEIGHTS + 5000) == 5000


def test_it_takes_no_more_than_it_can_use(model: Path) -> None:
    assert cache_bytes(model, 2**50) == useful_bytes(CONFIG) == 16 * 8192 * 2 * 32 * 8 * 128 * 4


def test_too_little_memory_is_said_in_numbers(model: Path) -> None:
    with pytest.raises(WorkerError, match="weights 1000") as caught:
        cache_bytes(model, OVERHEAD_BYTES)
    assert caught.value.reason == "MemoryTooSmall"

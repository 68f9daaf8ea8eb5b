"""The data of a job, and that the trainer learns just that."""

import tracemalloc
from array import array
from pathlib import Path
from typing import Any

import pytest
import torch
from runtime.tuning_runs import spec
from torch.nn.functional import cross_entropy
from transformers import AutoTokenizer
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from rowen.crds.job.worker import TuningSpec
from rowen.runtime.tuning.adapter import load_base
from rowen.runtime.tuning.data import dataset
from rowen.runtime.tuning.data.dataset import Data, read_data
from rowen.runtime.tuning.data.example import IGNORED, Example


@pytest.fixture
def tokenizer(tiny_model: Path) -> Any:
    return AutoTokenizer.from_pretrained(tiny_model)


def read(job: TuningSpec, tokenizer: Any) -> Data:
    return read_data(job, Path(job.dataset.where), tokenizer)


def job(model: Path, dataset: Path, **changes: Any) -> TuningSpec:
    return spec(model, dataset, Path("/out"), **changes)


def rows(data: Data) -> list[tuple[int, ...]]:
    """The rows that are learned, wherever they lie."""
    found = []
    for sequence in data.training:
        begin = 0
        for length in sequence.get("seq_lengths", [len(sequence["input_ids"])]):
            found.append(tuple(sequence["input_ids"][begin : begin + length]))
            begin += length
        assert begin == len(sequence["input_ids"]) == len(sequence["labels"])
    return found


def test_packed_sequences_hold_the_same_rows(tiny_model: Path, dataset: Path, tokenizer: Any) -> None:
    plain = read(job(tiny_model, dataset), tokenizer)
    packed = read(job(tiny_model, dataset, packing=True, sequence_length=128), tokenizer)
    assert sorted(rows(packed)) == sorted(rows(plain))
    assert len(packed.training) < len(plain.training)
    assert max(packed.lengths) <= 128
    assert packed.held_out["input_ids"] == plain.held_out["input_ids"]
    assert (packed.training_rows, len(packed.held_out)) == (16, 4)


def test_the_tokens_of_all_steps_are_those_of_the_sequences(tiny_model: Path, dataset: Path, tokenizer: Any) -> None:
    data = read(job(tiny_model, dataset, batch_size=3, gradient_accumulation=2), tokenizer)
    steps = range(data.order.steps_per_epoch, 2 * data.order.steps_per_epoch)
    assert sum(map(data.step_tokens, steps)) == sum(map(len, rows(data)))


def loss(model: Any, inputs: Any) -> float:
    """Summed over the tokens that are learned, by the model's own words."""
    labels = inputs.pop("labels")
    logits = model(**inputs, use_cache=False).logits[:, :-1].flatten(0, 1)
    return float(cross_entropy(logits, labels[:, 1:].flatten(), reduction="sum", ignore_index=IGNORED))


@torch.no_grad()
def test_no_packed_row_sees_another(tiny_model: Path, dataset: Path, tokenizer: Any) -> None:
    model = load_base(tiny_model)
    plain = read(job(tiny_model, dataset), tokenizer)
    packed = read(job(tiny_model, dataset, packing=True, sequence_length=128), tokenizer)
    apart = DataCollatorForLanguageModeling(pad_token_id=0)
    together = DataCollatorForLanguageModeling(pad_token_id=0, padding_free=True)
    alone = sum(loss(model, apart([sequence])) for sequence in plain.training)
    # Several sequences with several rows each are one batch.
    sequences = list(packed.training)
    batches = [sequences[begin : begin + 2] for begin in range(0, len(sequences), 2)]
    assert sum(loss(model, together(batch)) for batch in batches) == pytest.approx(alone, rel=1e-5)


def test_rows_take_little_more_memory_than_their_numbers() -> None:
    examples = [Example(array("i", range(500)), array("i", range(500))) for _ in range(4000)]
    numbers_bytes = 2 * 4 * 500 * len(examples)
    tracemalloc.start()
    try:
        made = dataset._dataset(examples)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert made.data.nbytes < 1.1 * numbers_bytes
    assert peak_bytes < 1.5 * numbers_bytes
    assert made[3999] == {"input_ids": [*range(500)], "labels": [*range(500)]}
    assert len(dataset._dataset([])) == 0

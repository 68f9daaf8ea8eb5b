"""The data of a job: tokenized sequences, and the batches of each step."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pyarrow.compute
import structlog
from datasets import Dataset, disable_progress_bars
from trl.data_utils import pack_dataset

from rowen.crds.job.fine_tune import Learning
from rowen.runtime.tuning.data.encoding import RowEncoder, encode_rows
from rowen.runtime.tuning.data.example import Example
from rowen.runtime.tuning.data.order import Order, split
from rowen.runtime.tuning.data.source import records

log = structlog.get_logger()

_ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class Data:
    """What a job learns from.

    Sequences have `input_ids` and `labels` (a token's id, or -100 where it is not learned); where several rows lie in
    one sequence, `seq_lengths` has the tokens of each.
    """

    training: Dataset
    """Sequences that are learned."""
    held_out: Dataset
    """Sequences that the loss is measured on, a row in each."""
    order: Order
    """Which sequences each step learns."""
    lengths: list[int]
    """Tokens of each sequence that is learned."""
    training_rows: int
    cut_rows: int
    """Rows of which only the beginning is learned."""
    dropped_rows: int
    """Rows of which nothing would be left to learn."""
    skipped_rows: int
    """Rows that are wrong."""
    skipped: str
    """Where the first of them are, and what is wrong with them, for people."""

    def step_tokens(self, step: int) -> int:
        """Tokens that a step works through, counted from 0."""
        return sum(self.lengths[index] for batch in self.order.step(step) for index in batch)


def read_data(learning: Learning, path: Path, tokenizer: Any) -> Data:
    """The data under the path, for that tokenizer of transformers. Raises `WorkerError`."""
    disable_progress_bars()
    encoder = RowEncoder(tokenizer, assistant_only=learning.assistant_only_loss)
    skips = learning.malformed_rows == "Skip"
    examples = encode_rows(records(path), encoder, learning.sequence_length, skips=skips)
    if examples.skipped_rows:
        log.warning("rows that are wrong are left out", rows=examples.skipped_rows, first=examples.skipped)
    train, held_out = split(len(examples.kept), learning.held_out_fraction, learning.seed)
    training = _dataset([examples.kept[index] for index in train])
    if learning.packing:
        training = pack_dataset(training, learning.sequence_length, "bfd")
    lengths = pyarrow.compute.list_value_length(training.data.column("input_ids")).to_pylist()
    return Data(
        training=training,
        held_out=_dataset([examples.kept[index] for index in held_out]),
        order=Order(len(lengths), learning.batch_size, learning.gradient_accumulation, learning.seed),
        lengths=lengths,
        training_rows=len(train),
        cut_rows=examples.cut_rows,
        dropped_rows=examples.dropped_rows,
        skipped_rows=examples.skipped_rows,
        skipped=examples.skipped,
    )


def _dataset(examples: Sequence[Example]) -> Dataset:
    columns = {
        "input_ids": _column([example.tokens for example in examples]),
        "labels": _column([example.labels for example in examples]),
    }
    # Without a fingerprint it makes one, for caches that nobody has, out of several copies of all that it holds.
    return Dataset(pyarrow.table(columns), fingerprint="examples")


def _column(rows: Sequence[Sequence[int]]) -> pyarrow.ChunkedArray:
    """Lists of numbers, put together without an object for each of them."""
    chunks = []
    for begin in range(0, len(rows), _ROWS_AT_ONCE):
        some = rows[begin : begin + _ROWS_AT_ONCE]
        ends = numpy.cumsum([0, *map(len, some)], dtype=numpy.int32)
        numbers = numpy.concatenate([numpy.asarray(row, dtype=numpy.int32) for row in some])
        chunks.append(pyarrow.ListArray.from_arrays(ends, numbers))
    return pyarrow.chunked_array(chunks, pyarrow.list_(pyarrow.int32()))

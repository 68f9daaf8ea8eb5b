"""All rows of a dataset as examples, with what did not fit."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rowen.runtime.failure import WorkerError
from rowen.runtime.tuning.data.chat import ChatEncoder
from rowen.runtime.tuning.data.example import Example
from rowen.runtime.tuning.data.rows import Text, row_of
from rowen.runtime.tuning.data.source import Record
from rowen.runtime.tuning.data.text import TextEncoder

_REPORTED_ROWS = 5


@dataclass(frozen=True)
class Examples:
    """The examples of a dataset, and what did not fit into them."""

    kept: list[Example]
    cut_rows: int
    """Rows of which only the beginning is learned."""
    dropped_rows: int
    """Rows of which nothing would be left to learn."""


class RowEncoder:
    """Makes an example of any row."""

    def __init__(self, tokenizer: Any, *, assistant_only: bool) -> None:
        self._tokenizer = tokenizer
        self._assistant_only = assistant_only
        self._text = TextEncoder(tokenizer)
        self._chat: ChatEncoder | None = None

    def encode(self, value: object) -> Example:
        """Raises `ValueError` for a row that is wrong, and `WorkerError` for a tokenizer that will not do."""
        row = row_of(value)
        if isinstance(row, Text):
            if self._assistant_only:
                raise ValueError("assistantOnlyLoss needs messages, and this is a text")
            return self._text.encode(row)
        if self._chat is None:
            self._chat = ChatEncoder(self._tokenizer, assistant_only=self._assistant_only)
        return self._chat.encode(row)


def encode_rows(rows: Iterable[Record], encoder: RowEncoder, sequence_length: int) -> Examples:
    """Examples of at most `sequence_length` tokens.

    Raises `WorkerError` that names the rows that are wrong, and when nothing is left to learn.
    """
    kept: list[Example] = []
    reported: list[str] = []
    wrong = cut = dropped = 0
    for place, read in rows:
        try:
            whole = encoder.encode(read())
        except ValueError as error:
            wrong += 1
            if wrong <= _REPORTED_ROWS:
                reported.append(f"{place}: {error}")
            continue
        example = whole.cut(sequence_length)
        if not example.is_learned:
            dropped += 1
            continue
        kept.append(example)
        cut += len(whole.tokens) > sequence_length
    if wrong:
        raise _malformed(reported, wrong)
    if not kept:
        raise _nothing(dropped, sequence_length)
    return Examples(kept, cut, dropped)


def _malformed(reported: list[str], wrong: int) -> WorkerError:
    more = f"; and {wrong - len(reported)} more" if wrong > len(reported) else ""
    return WorkerError("DatasetMalformed", "; ".join(reported) + more)


def _nothing(dropped: int, sequence_length: int) -> WorkerError:
    if not dropped:
        return WorkerError("DatasetMalformed", "the dataset has no rows")
    message = f"no row leaves anything to learn within {sequence_length} tokens; raise sequenceLength"
    return WorkerError("DatasetMalformed", message)

"""Examples made of a dataset's rows: token ids, and from which on they are learned."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from rowen.runtime.failure import WorkerError
from rowen.runtime.tuning.dataset import Row

_PLAIN_TEXT = "Hello 0 привет 你好"
"""Spells out no special token. Of several scripts, since a vocabulary may drop words that it does not know."""


class Tokenizer(Protocol):
    """What is used of a tokenizer of transformers."""

    @property
    def eos_token_id(self) -> int | None:
        """The end token."""

    def __call__(self, text: str, *, add_special_tokens: bool) -> Mapping[str, list[int]]:
        """Token ids of the text under `input_ids`."""


@dataclass(frozen=True)
class Example:
    """Token ids of a row, of which the first `given_tokens` are given and not learned."""

    tokens: list[int]
    given_tokens: int


@dataclass(frozen=True)
class Examples:
    """The examples of a dataset, and what did not fit into them."""

    kept: list[Example]
    cut_rows: int
    """Rows of which only the beginning is learned."""
    dropped_rows: int
    """Rows of which nothing would be left to learn."""


def encode_rows(rows: list[Row], tokenizer: Tokenizer, sequence_length: int) -> Examples:
    """Examples of at most `sequence_length` tokens. Raises `WorkerError` when nothing is left to learn."""
    start = _start_tokens(tokenizer)
    whole = [_example(row, tokenizer, start) for row in rows]
    learnable = [example for example in whole if _first_learned(example) < min(len(example.tokens), sequence_length)]
    if not learnable:
        message = f"no row leaves anything to learn within {sequence_length} tokens; raise sequenceLength"
        raise WorkerError("DatasetMalformed", message)
    return Examples(
        kept=[Example(example.tokens[:sequence_length], example.given_tokens) for example in learnable],
        cut_rows=sum(len(example.tokens) > sequence_length for example in learnable),
        dropped_rows=len(rows) - len(learnable),
    )


def _example(row: Row, tokenizer: Tokenizer, start: list[int]) -> Example:
    """Start tokens, prompt, completion and end token, as the model meets them when it answers.

    Prompt and completion are tokenized apart, so that none of the tokens is part of both.
    """
    prompt = _tokens(tokenizer, row.prompt) if row.prompt else []
    completion = _tokens(tokenizer, row.completion)
    # A text may spell out the special tokens itself.
    if (prompt + completion)[: len(start)] != start:
        prompt = start + prompt
    end = tokenizer.eos_token_id
    if end is not None and completion[-1:] != [end]:
        completion = [*completion, end]
    return Example(prompt + completion, len(prompt))


def _first_learned(example: Example) -> int:
    # The very first token has nothing before it that it could be predicted from.
    return max(example.given_tokens, 1)


def _start_tokens(tokenizer: Tokenizer) -> list[int]:
    """What the tokenizer puts before every text: the token that begins a sequence, or nothing."""
    plain, whole = _tokens(tokenizer, _PLAIN_TEXT), _tokens(tokenizer, _PLAIN_TEXT, special=True)
    places = [place for place in range(len(whole)) if plain and whole[place : place + len(plain)] == plain]
    return whole[: places[0]] if places else []


def _tokens(tokenizer: Tokenizer, text: str, *, special: bool = False) -> list[int]:
    return list(tokenizer(text, add_special_tokens=special)["input_ids"])

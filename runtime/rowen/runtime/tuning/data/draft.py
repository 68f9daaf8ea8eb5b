"""A row between its text and its tokens, so that many rows are tokenized together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rowen.runtime.tuning.data.example import Example


@dataclass(frozen=True)
class Tokens:
    """A text as tokens."""

    ids: list[int]
    place: Callable[[int], int | None]
    """Which token has the character at an index; None where none has it. Raises `ValueError` where nobody can tell."""


@dataclass(frozen=True)
class Draft:
    """A row as texts, and how their tokens become its example."""

    texts: Sequence[str]
    """At least one; no special tokens are put around them."""
    example: Callable[[Sequence[Tokens]], Example]
    """Takes the tokens of each text. Raises `ValueError` for a row that is wrong."""

"""Texts as tokens: what is given, what is learned, and where a sequence begins and ends."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from rowen.runtime.tuning.data.draft import Draft, Tokens
from rowen.runtime.tuning.data.example import IGNORED, Example
from rowen.runtime.tuning.data.rows import Text

_PLAIN_TEXT = "Hello 0 привет 你好"
"""Spells out no special token. Of several scripts, since a vocabulary may drop words that it does not know."""


class Tokenizer(Protocol):
    """What is used of a tokenizer of transformers."""

    @property
    def eos_token_id(self) -> int | None:
        """The end token."""

    def __call__(self, text: str, *, add_special_tokens: bool) -> Mapping[str, list[int]]:
        """Token ids of the text under `input_ids`."""


class TextEncoder:
    """Makes examples of texts."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._start = self._start_tokens()

    def draft(self, row: Text) -> Draft:
        """Start tokens, prompt, completion and end token, as the model meets them when it answers.

        Prompt and completion are tokenized apart, so that none of the tokens is part of both.
        """
        return Draft([row.prompt, row.completion] if row.prompt else [row.completion], self._example)

    def _example(self, texts: Sequence[Tokens]) -> Example:
        *given, learned = texts
        prompt, completion = [token for text in given for token in text.ids], learned.ids
        # A text may spell out the special tokens itself.
        if (prompt + completion)[: len(self._start)] != self._start:
            prompt = self._start + prompt
        end = self._tokenizer.eos_token_id
        if end is not None and completion[-1:] != [end]:
            completion = [*completion, end]
        return Example(prompt + completion, [IGNORED] * len(prompt) + completion)

    def _start_tokens(self) -> list[int]:
        """What the tokenizer puts before every text: the token that begins a sequence, or nothing."""
        plain, whole = self._tokens(_PLAIN_TEXT), self._tokens(_PLAIN_TEXT, special=True)
        places = [place for place in range(len(whole)) if plain and whole[place : place + len(plain)] == plain]
        return whole[: places[0]] if places else []

    def _tokens(self, text: str, *, special: bool = False) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=special)["input_ids"])

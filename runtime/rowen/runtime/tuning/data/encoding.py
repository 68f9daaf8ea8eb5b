"""All rows of a dataset as examples, with what did not fit."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rowen.runtime.failure import WorkerError
from rowen.runtime.tuning.data.chat import ChatEncoder
from rowen.runtime.tuning.data.draft import Draft, Tokens
from rowen.runtime.tuning.data.example import Example
from rowen.runtime.tuning.data.rows import Text, row_of
from rowen.runtime.tuning.data.source import Record
from rowen.runtime.tuning.data.text import TextEncoder

_REPORTED_ROWS = 5
_ROWS_AT_ONCE = 1024
_CHARACTERS_AT_ONCE = 2**18
"""Of a tokenizer's answer more is in memory than of the examples that are made of it: some hundred bytes a token."""


@dataclass(frozen=True)
class Examples:
    """The examples of a dataset, and what did not fit into them."""

    kept: list[Example]
    cut_rows: int
    """Rows of which only the beginning is learned."""
    dropped_rows: int
    """Rows of which nothing would be left to learn."""
    skipped_rows: int
    """Rows that are wrong."""
    skipped: str
    """Where the first of them are, and what is wrong with them, for people."""


class RowEncoder:
    """Makes an example of any row."""

    def __init__(self, tokenizer: Any, *, assistant_only: bool) -> None:
        self._tokenizer = tokenizer
        self._assistant_only = assistant_only
        self._text = TextEncoder(tokenizer)
        self._chat: ChatEncoder | None = None

    def encoded(self, rows: Iterable[Record]) -> Iterator[tuple[str, Example | str]]:
        """Where each row is, and its example or, in words, what is wrong with it. Many rows are tokenized together.

        Raises `WorkerError` for a tokenizer that will not do.
        """
        # Of a row that is wrong only words are kept: an error would keep the whole row.
        drafts: list[tuple[str, Draft | str]] = []
        characters = 0
        for place, read in rows:
            draft = self._drafted(read)
            drafts.append((place, draft))
            characters += 0 if isinstance(draft, str) else sum(map(len, draft.texts))
            if len(drafts) >= _ROWS_AT_ONCE or characters >= _CHARACTERS_AT_ONCE:
                yield from self._examples(drafts)
                drafts, characters = [], 0
        yield from self._examples(drafts)

    def _drafted(self, read: Callable[[], object]) -> Draft | str:
        try:
            row = row_of(read())
            if not isinstance(row, Text):
                return self._chats().draft(row)
            if self._assistant_only:
                raise ValueError("assistantOnlyLoss needs messages, and this is a text")
            return self._text.draft(row)
        except ValueError as error:
            return str(error)

    def _chats(self) -> ChatEncoder:
        if self._chat is None:
            self._chat = ChatEncoder(self._tokenizer, assistant_only=self._assistant_only)
        return self._chat

    def _examples(self, drafts: Sequence[tuple[str, Draft | str]]) -> Iterator[tuple[str, Example | str]]:
        proper = [draft for _, draft in drafts if isinstance(draft, Draft)]
        examples = iter(self._tokenized(proper) if proper else ())
        for place, draft in drafts:
            yield place, draft if isinstance(draft, str) else next(examples)

    def _tokenized(self, drafts: Sequence[Draft]) -> list[Example | str]:
        texts = [text for draft in drafts for text in draft.texts]
        try:
            found = self._tokenizer(
                texts, add_special_tokens=False, return_attention_mask=False, return_token_type_ids=False
            )
        except Exception as error:
            # Whatever a tokenizer raises. It does not say at which text.
            if len(drafts) > 1:
                return [example for draft in drafts for example in self._tokenized([draft])]
            return [f"the tokenizer refuses it: {type(error).__name__}: {error}"]
        tokens = (Tokens(ids, partial(found.char_to_token, number)) for number, ids in enumerate(found["input_ids"]))
        return [_example(draft, [next(tokens) for _ in draft.texts]) for draft in drafts]


def _example(draft: Draft, tokens: Sequence[Tokens]) -> Example | str:
    try:
        return draft.example(tokens)
    except ValueError as error:
        return str(error)


def encode_rows(rows: Iterable[Record], encoder: RowEncoder, sequence_length: int, *, skips: bool = False) -> Examples:
    """Examples of at most `sequence_length` tokens. `skips`: rows that are wrong are left out.

    Raises `WorkerError` that names the rows that are wrong, unless they are left out, and where there is nothing to
    learn.
    """
    kept: list[Example] = []
    reported: list[str] = []
    wrong = cut = dropped = 0
    for place, whole in encoder.encoded(rows):
        if isinstance(whole, str):
            wrong += 1
            if wrong <= _REPORTED_ROWS:
                reported.append(f"{place}: {whole}")
            continue
        example = whole.cut(sequence_length)
        if not example.is_learned:
            dropped += 1
            continue
        kept.append(example)
        cut += len(whole.tokens) > sequence_length
    told = _told(reported, wrong)
    if wrong and not (skips and (kept or dropped)):
        raise WorkerError("DatasetMalformed", told)
    if not kept:
        raise _nothing(dropped, sequence_length)
    return Examples(kept, cut, dropped, wrong, told)


def _told(reported: list[str], wrong: int) -> str:
    more = f"; and {wrong - len(reported)} more" if wrong > len(reported) else ""
    # The name of a file may be no text.
    return ("; ".join(reported) + more).encode(errors="backslashreplace").decode()


def _nothing(dropped: int, sequence_length: int) -> WorkerError:
    if not dropped:
        return WorkerError("DatasetMalformed", "the dataset has no rows")
    message = f"no row leaves anything to learn within {sequence_length} tokens; raise sequenceLength"
    return WorkerError("DatasetMalformed", message)

"""Conversations as tokens, by the tokenizer's chat template."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import structlog
from transformers.utils.chat_template_utils import render_jinja_template
from trl.chat_template_utils import (
    get_training_chat_template,
    has_generation_markers,
    is_chat_template_stop_token_trained,
)

from rowen.runtime.failure import WorkerError
from rowen.runtime.tuning.data.draft import Draft, Tokens
from rowen.runtime.tuning.data.example import IGNORED, Example
from rowen.runtime.tuning.data.rows import Chat, Messages

log = structlog.get_logger()

Spans = Sequence[tuple[int, int]]
"""Where the assistant's parts of a text begin and end, in characters."""


class ChatEncoder:
    """Makes examples of conversations."""

    def __init__(self, tokenizer: Any, *, assistant_only: bool) -> None:
        """Raises `WorkerError` for a tokenizer whose template will not do."""
        if not tokenizer.chat_template:
            message = f"{tokenizer.name_or_path} has no chat template, which rows of messages need"
            raise WorkerError("SpecInvalid", message)
        self._tokenizer = tokenizer
        self._assistant_only = assistant_only
        self._template = _marked_template(tokenizer) if assistant_only else None

    def draft(self, row: Chat) -> Draft:
        """The whole conversation. Raises `ValueError`, with the template's words where it refuses the messages."""
        whole, spans = self._rendered([*row.given, *row.messages], row, marked=self._assistant_only)
        texts = [whole]
        if row.given:
            prompt, _ = self._rendered(row.given, row, add_generation_prompt=True)
            texts.append(prompt)
        return Draft(texts, partial(self._example, spans))

    def _example(self, spans: Spans, texts: Sequence[Tokens]) -> Example:
        whole, tokens = texts[0], texts[0].ids
        given = _common(texts[1].ids, tokens) if texts[1:] else 0
        spoken = _spoken(whole, spans) if self._assistant_only else [1] * len(tokens)
        if 1 not in spoken:
            raise ValueError("assistantOnlyLoss: the assistant says nothing")
        labels = [token if said else IGNORED for token, said in zip(tokens, spoken, strict=True)]
        return Example(tokens, [IGNORED] * given + labels[given:])

    def _rendered(self, messages: Messages, row: Chat, *, marked: bool = False, **options: Any) -> tuple[str, Spans]:
        """The text, and where it is the assistant's if the template marks that."""
        tools = row.tools or None
        try:
            # Its types say that it returns one text.
            rendered: Any = render_jinja_template(
                [messages],
                tools=tools,
                chat_template=self._tokenizer.get_chat_template(self._template, tools),
                return_assistant_tokens_mask=marked,
                **options,
                **self._tokenizer.special_tokens_map,
            )
        except Exception as error:
            # Whatever a template raises: it is a program of the model's.
            raise ValueError(f"the chat template refuses it: {type(error).__name__}: {error}") from error
        [text], spans = rendered
        return text, spans[0] if marked else []


def _common(prompt: list[int], tokens: list[int]) -> int:
    """How many tokens a conversation has in common with one that the assistant is about to answer."""
    pairs = enumerate(zip(prompt, tokens, strict=False))
    return next((number for number, (one, other) in pairs if one != other), min(len(prompt), len(tokens)))


def _spoken(text: Tokens, spans: Spans) -> list[int]:
    """1 for each token of these parts, as `apply_chat_template` has its `assistant_masks`."""
    spoken = [0] * len(text.ids)
    for begin, end in spans:
        if not end:
            # Nothing is said at the very beginning.
            continue
        first, last = text.place(begin), text.place(end - 1)
        if first is None:
            break
        stop = last + 1 if last else len(spoken)
        spoken[first:stop] = [1] * (stop - first)
    return spoken


def _marked_template(tokenizer: Any) -> str | None:
    """The template that marks what the assistant says; None for the tokenizer's own. Raises `WorkerError`."""
    template = None
    if not has_generation_markers(tokenizer.chat_template):
        try:
            template = get_training_chat_template(tokenizer)
        except ValueError as error:
            raise WorkerError(
                "SpecInvalid",
                f"assistantOnlyLoss: the chat template of {tokenizer.name_or_path} does not mark what the assistant"
                " says, and TRL knows no other one for it: put {% generation %} and {% endgeneration %} around the"
                " assistant's part, or leave assistantOnlyLoss out",
            ) from error
    if not is_chat_template_stop_token_trained(tokenizer, chat_template=template):
        log.warning("the chat template does not mark the end of the assistant's turn: the model may not learn to stop")
    return template

"""Conversations as tokens, by the tokenizer's chat template."""

from collections.abc import Mapping
from typing import Any

import structlog
from trl.chat_template_utils import (
    get_training_chat_template,
    has_generation_markers,
    is_chat_template_stop_token_trained,
)

from rowen.runtime.failure import WorkerError
from rowen.runtime.tuning.data.example import IGNORED, Example
from rowen.runtime.tuning.data.rows import Chat, Messages

log = structlog.get_logger()


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

    def encode(self, row: Chat) -> Example:
        """The whole conversation. Raises `ValueError`, with the template's words where it refuses the messages."""
        whole = self._rendered([*row.given, *row.messages], row, return_assistant_tokens_mask=self._assistant_only)
        tokens = list(whole["input_ids"])
        given = self._given_tokens(row, tokens)
        spoken = whole["assistant_masks"] if self._assistant_only else [1] * len(tokens)
        if 1 not in spoken:
            raise ValueError("assistantOnlyLoss: the assistant says nothing")
        labels = [token if said else IGNORED for token, said in zip(tokens, spoken, strict=True)]
        return Example(tokens, [IGNORED] * given + labels[given:])

    def _given_tokens(self, row: Chat, tokens: list[int]) -> int:
        """How many tokens the conversation has in common with one that the assistant is about to answer."""
        if not row.given:
            return 0
        prompt = self._rendered(row.given, row, add_generation_prompt=True)["input_ids"]
        pairs = enumerate(zip(prompt, tokens, strict=False))
        return next((number for number, (one, other) in pairs if one != other), min(len(prompt), len(tokens)))

    def _rendered(self, messages: Messages, row: Chat, **options: Any) -> Mapping[str, list[int]]:
        try:
            rendered: Mapping[str, list[int]] = self._tokenizer.apply_chat_template(
                messages, tools=row.tools or None, chat_template=self._template, return_dict=True, **options
            )
        except Exception as error:
            # Whatever a template raises: it is a program of the model's.
            raise ValueError(f"the chat template refuses it: {type(error).__name__}: {error}") from error
        return rendered


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

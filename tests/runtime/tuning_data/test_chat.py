"""What is learned of a conversation."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from transformers import AutoTokenizer
from trl.chat_template_utils import qwen3_chat_template

from rowen.crds.job.worker import ExitCode
from rowen.runtime.failure import WorkerError
from rowen.runtime.tuning.data.encoding import Examples, RowEncoder, encode_rows
from rowen.runtime.tuning.data.example import IGNORED, Example

SAID = [
    {"role": "user", "content": "my kettle leaks"},
    {"role": "assistant", "content": "please descale it"},
    {"role": "user", "content": "thank you"},
    {"role": "assistant", "content": "welcome"},
]
MARKED = (
    "{% for message in messages %}<|{{ message['role'] }}|>"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] }}{{ eos_token }}{% endgeneration %}"
    "{% else %}{{ message['content'] }}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.fixture
def tokenizer(tiny_model: Path) -> Any:
    return AutoTokenizer.from_pretrained(tiny_model)


def encode(rows: list[Any], tokenizer: Any, *, assistant_only: bool, length: int = 200) -> Examples:
    encoder = RowEncoder(tokenizer, assistant_only=assistant_only)
    numbered: Iterator[Any] = ((f"data:{number}", partial(dict, row)) for number, row in enumerate(rows, start=1))
    return encode_rows(numbered, encoder, length)


def words(tokenizer: Any, example: Example) -> tuple[str, str]:
    """All of it, and what is learned."""
    learned = [label for label in example.labels if label != IGNORED]
    return tokenizer.decode(list(example.tokens)), tokenizer.decode(learned)


def test_without_more_all_of_a_conversation_is_learned(tokenizer: Any) -> None:
    [found] = encode([{"messages": SAID}], tokenizer, assistant_only=False).kept
    assert (
        list(found.labels) == list(found.tokens) == tokenizer.apply_chat_template(SAID, return_dict=True)["input_ids"]
    )


def test_of_the_assistant_alone_what_it_says_and_that_it_ends(tokenizer: Any) -> None:
    tokenizer.chat_template = MARKED
    [found] = encode([{"messages": SAID}], tokenizer, assistant_only=True).kept
    whole, learned = words(tokenizer, found)
    assert whole == tokenizer.apply_chat_template(SAID, tokenize=False)
    assert learned == "please descale it</s>welcome</s>"


def test_a_known_template_gets_its_marks_from_trl(tokenizer: Any) -> None:
    tokenizer.chat_template = qwen3_chat_template
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    [found] = encode([{"messages": SAID}], tokenizer, assistant_only=True).kept
    _, learned = words(tokenizer, found)
    assert "please descale it<|im_end|>" in learned
    assert "kettle" not in learned


def test_a_template_without_marks_is_refused_with_what_is_missing(tokenizer: Any) -> None:
    with pytest.raises(WorkerError, match=r"assistantOnlyLoss: .*put {% generation %} and {% endgeneration %}") as told:
        encode([{"messages": SAID}], tokenizer, assistant_only=True)
    assert (told.value.reason, told.value.code) == ("SpecInvalid", ExitCode.USER_ERROR)


def test_a_tokenizer_without_a_template_is_refused(tokenizer: Any) -> None:
    tokenizer.chat_template = None
    assert encode([{"text": "a b"}], tokenizer, assistant_only=False).kept
    with pytest.raises(WorkerError, match="has no chat template"):
        encode([{"messages": SAID}], tokenizer, assistant_only=False)


def test_a_template_that_does_not_teach_to_stop_is_said(tokenizer: Any) -> None:
    tokenizer.chat_template = MARKED.replace("{{ eos_token }}{% endgeneration %}", "{% endgeneration %}{{ eos_token }}")
    with capture_logs() as logs:
        encode([{"messages": SAID}], tokenizer, assistant_only=True)
    assert any("may not learn to stop" in entry["event"] for entry in logs)


@pytest.mark.parametrize("assistant_only", [True, False])
def test_messages_in_the_prompt_are_given(tokenizer: Any, assistant_only: bool) -> None:
    tokenizer.chat_template = MARKED
    row = {"prompt": SAID[:3], "completion": SAID[3:]}
    [found] = encode([row], tokenizer, assistant_only=assistant_only).kept
    whole, learned = words(tokenizer, found)
    assert whole == tokenizer.apply_chat_template(SAID, tokenize=False)
    assert learned == "welcome</s>"


def test_tools_reach_the_template(tokenizer: Any) -> None:
    tokenizer.chat_template = "{{ tools | tojson if tools else '' }}" + MARKED
    [found] = encode(
        [{"messages": SAID, "tools": json.dumps([{"name": "look"}])}], tokenizer, assistant_only=False
    ).kept
    assert words(tokenizer, found)[0].startswith('[{"name": "look"}]')


def test_rows_are_named_with_what_is_wrong(tokenizer: Any) -> None:
    tokenizer.chat_template = (
        "{% if messages[0]['role'] != 'user' %}{{ raise_exception('a user begins') }}{% endif %}" + MARKED
    )
    rows = [{"messages": SAID}, {"messages": SAID[1:]}, {"text": "a"}, {"messages": SAID[:1]}]
    with pytest.raises(WorkerError) as told:
        encode(rows, tokenizer, assistant_only=True)
    assert told.value.reason == "DatasetMalformed"
    second, third, fourth = told.value.message.split("; ")
    assert second.startswith("data:2: the chat template refuses it: ")
    assert second.endswith("a user begins")
    assert third == "data:3: assistantOnlyLoss needs messages, and this is a text"
    assert fourth == "data:4: assistantOnlyLoss: the assistant says nothing"


def test_a_conversation_is_cut_and_one_whose_answers_are_cut_off_is_dropped(tokenizer: Any) -> None:
    tokenizer.chat_template = MARKED
    late = [{"role": "user", "content": "my kettle leaks " * 20}, SAID[1]]
    found = encode([{"messages": SAID}, {"messages": late}], tokenizer, assistant_only=True, length=16)
    assert (len(found.kept), found.cut_rows, found.dropped_rows) == (1, 1, 1)
    assert len(found.kept[0].tokens) == 16

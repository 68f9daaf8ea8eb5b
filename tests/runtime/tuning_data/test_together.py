"""Rows that are tokenized together become what each becomes alone."""

import random
import tracemalloc
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from rowen.runtime.failure import WorkerError
from rowen.runtime.tuning.data import encoding
from rowen.runtime.tuning.data.encoding import Examples, RowEncoder, encode_rows
from rowen.runtime.tuning.data.example import IGNORED

TEMPLATE = (
    "{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% for message in messages %}<|{{ message['role'] }}|>"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] }}{{ eos_token }}{% endgeneration %}"
    "{% else %}{{ message['content'] }}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
ODD = [
    "a", " ", "\n\n", "\t x", "  two  spaces ", "</s>", "<s>", "<s><s> </s>", "<|assistant|>", "<unk>", "0123456789",
    "привет, мир", "你好世界", "🤖👩‍👩‍👧", "e\u0301 and é", "\u200b\ufeff", "\x00", "kettle" * 50,
    "my kettle leaks", "ﬁne",
]  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer(tiny_model: Path) -> Any:
    of = AutoTokenizer.from_pretrained(tiny_model)
    of.chat_template = TEMPLATE
    return of


def text(chance: random.Random) -> str:
    return "".join(chance.choice(ODD) for _ in range(chance.randint(1, 12)))


def said(chance: random.Random, role: str) -> dict[str, str]:
    return {"role": role, "content": text(chance)}


def row(chance: random.Random) -> dict[str, Any]:
    messages = [said(chance, role) for role in ["system", "user", "assistant", "user", "assistant"]]
    tools = {"tools": [{"name": text(chance)}]} if chance.random() < 0.3 else {}
    return chance.choice(
        [
            {"text": text(chance)},
            {"prompt": text(chance), "completion": text(chance)},
            {"messages": messages} | tools,
            {"prompt": messages[: chance.choice([2, 4])], "completion": messages[-1:]} | tools,
        ]
    )


def encode(rows: list[dict[str, Any]], tokenizer: Any, *, assistant_only: bool = False) -> Examples:
    records: Iterator[Any] = ((f"data:{number}", partial(dict, row)) for number, row in enumerate(rows, start=1))
    return encode_rows(records, RowEncoder(tokenizer, assistant_only=assistant_only), 10_000)


def alone(row: dict[str, Any], tokenizer: Any, *, assistant_only: bool) -> tuple[list[int], list[int]]:
    """Tokens and labels of a row, by the tokenizer's own means and nothing else."""

    def chat(messages: list[Any], **options: Any) -> Any:
        return tokenizer.apply_chat_template(messages, tools=row.get("tools"), return_dict=True, **options)

    if "messages" in row or isinstance(row.get("prompt"), list):
        given, rest = row.get("prompt", []), row.get("messages") or row["completion"]
        whole = chat([*given, *rest], return_assistant_tokens_mask=assistant_only)
        tokens, spoken = whole["input_ids"], whole.get("assistant_masks", [1] * len(whole["input_ids"]))
        start = chat(given, add_generation_prompt=True)["input_ids"] if given else []
        common = next((at for at, token in enumerate(start) if tokens[at : at + 1] != [token]), len(start))
        return tokens, [
            token if said and at >= common else IGNORED
            for at, (token, said) in enumerate(zip(tokens, spoken, strict=True))
        ]
    prompt = tokenizer(row["prompt"], add_special_tokens=False)["input_ids"] if "prompt" in row else []
    completion = tokenizer(row.get("completion", row.get("text")), add_special_tokens=False)["input_ids"]
    begin, end = tokenizer.bos_token_id, tokenizer.eos_token_id
    if tokenizer("a")["input_ids"][0] == begin and (prompt + completion)[0] != begin:
        prompt = [begin, *prompt]
    if completion[-1] != end:
        completion = [*completion, end]
    return prompt + completion, [IGNORED] * len(prompt) + completion


@pytest.mark.parametrize("assistant_only", [False, True])
def test_rows_are_what_they_are_alone(assistant_only: bool, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_ROWS_AT_ONCE", 37)
    chance = random.Random(5)
    rows = [row(chance) for _ in range(1500)]
    if assistant_only:
        rows = [row for row in rows if "text" not in row and not isinstance(row.get("prompt"), str)]
    found = encode(rows, tokenizer, assistant_only=assistant_only)
    expected = [alone(row, tokenizer, assistant_only=assistant_only) for row in rows]
    learned = [(tokens, labels) for tokens, labels in expected if set(labels[1:]) - {IGNORED}]
    assert [(list(example.tokens), list(example.labels)) for example in found.kept] == learned
    assert found.dropped_rows == len(rows) - len(learned) < 20


class Counting:
    """A tokenizer that counts the texts of each of its calls."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.calls: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def __call__(self, text: str | list[str], **options: Any) -> Any:
        self.calls.append(1 if isinstance(text, str) else sum(map(len, text)))
        return self._tokenizer(text, **options)


def test_many_rows_are_one_call_and_never_too_many(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_CHARACTERS_AT_ONCE", 5000)
    counting = Counting(tokenizer)
    rows = [{"text": "my kettle leaks"}, {"messages": [said(random.Random(1), "user")]}] * 2000
    encode(rows, counting)
    assert len(counting.calls) < 100
    longest = max(len(text) for text in ODD) * 12 + 100
    assert max(counting.calls) < 5000 + longest


def test_wrong_rows_are_named_in_their_order_wherever_they_are_found(tokenizer: Any) -> None:
    silent = {"messages": [said(random.Random(1), "user")]}
    with pytest.raises(WorkerError) as told:
        encode([silent, {"text": 3}, silent, {"messages": []}], tokenizer, assistant_only=True)
    assert [part.partition(": ")[0] for part in told.value.message.split("; ")] == [f"data:{n}" for n in (1, 2, 3, 4)]


def test_wrong_rows_are_not_kept(tokenizer: Any) -> None:
    wrong = ((f"data:{number}", lambda: {"image": "ab" * 2**18}) for number in range(200))
    tracemalloc.start()
    with pytest.raises(WorkerError, match=r"data:4: expected either .*; and 195 more"):
        encode_rows(wrong, RowEncoder(tokenizer, assistant_only=False), 100)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 8 * 2**20


class Refusing(Counting):
    """A tokenizer that takes no lamp."""

    def __call__(self, text: str | list[str], **options: Any) -> Any:
        if "lamp" in text:
            raise TypeError("no lamp")
        return super().__call__(text, **options)


def test_a_row_that_the_tokenizer_refuses_is_named_alone(tokenizer: Any) -> None:
    rows = [{"text": "kettle"}, {"text": "lamp"}, {"text": "router"}, {"text": 3}]
    with pytest.raises(WorkerError) as told:
        encode(rows, Refusing(tokenizer))
    assert told.value.reason == "DatasetMalformed"
    first, second = told.value.message.split("; ")
    assert first == "data:2: the tokenizer refuses it: TypeError: no lamp"
    assert second.startswith("data:4: text is not a text")

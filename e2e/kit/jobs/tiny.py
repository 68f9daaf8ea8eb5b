"""Models that compute in no time, and the data of jobs with them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rowen.demo.samples import Shape, dialogues, write_model

EMBEDDING_SIZE = 64
_SHAPE = Shape(layers=2, hidden=64, intermediate=128, heads=2, key_value_heads=1)
_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] }}{{ eos_token }}{% endgeneration %}"
    "{% else %}{{ message['content'] }}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""Marks what the assistant says."""
_SCHEMA = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"name": "a", "schema": _SCHEMA}}


def llama(folder: Path) -> Path:
    """A Llama whose chat template marks the assistant's part."""
    write_model(folder, _SHAPE)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": _TEMPLATE}))
    return folder


def bert(folder: Path, llama: Path) -> Path:
    """A BERT with the tokenizer of that Llama."""
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(4)
    config = BertConfig(
        vocab_size=1024, hidden_size=EMBEDDING_SIZE, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=128, max_position_embeddings=256,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    for path in llama.glob("token*"):
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def chats(count: int) -> str:
    """A chat dataset of that many rows."""
    return lines(
        {
            "messages": [
                {"role": "user", "content": row["prompt"].removeprefix("<|user|>").removesuffix("<|assistant|>")},
                {"role": "assistant", "content": row["completion"]},
            ]
        }
        for row in dialogues(count)
    )


def request(custom_id: str, url: str, **body: Any) -> dict[str, Any]:
    """A row of a batch."""
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body}


def mixed(count: int, **more: Any) -> list[dict[str, Any]]:
    """Rows `plain-0`, `completed-0`, `formed-0`, `logged-0`, `plain-1`, …; `more` is in each body."""
    rows = []
    for number in range(count):
        body = {"messages": [{"role": "user", "content": f"My kettle {number} is too hot."}], **more}
        rows += [
            request(f"plain-{number}", "/v1/chat/completions", **body),
            request(f"completed-{number}", "/v1/completions", prompt=f"order number {number}", **more),
            request(f"formed-{number}", "/v1/chat/completions", **body, response_format=FORMAT),
            request(f"logged-{number}", "/v1/chat/completions", **body, logprobs=True, top_logprobs=2),
        ]
    return rows


def lines(rows: Iterable[dict[str, Any]]) -> str:
    """Rows as JSONL."""
    return "".join(json.dumps(row) + "\n" for row in rows)

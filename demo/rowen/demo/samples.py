"""A small model and data to try Rowen with: `python -m rowen.demo.samples --models DIR --data DIR`.

Everything is made on the spot from a seed: a Llama-shaped model with random weights, a tokenizer trained on our own
sentences, a dataset of support dialogues and a file of batch requests. Present files are left as they are.
"""

import argparse
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SEED = 20
MODEL = "llama-demo"
CONTEXT = 1024
VOCABULARY = 1024
WEIGHT_STD = 0.04
"""Large enough that the answers of a random model differ, small enough that an adapter learns."""
DIALOGUES = 160
REQUESTS = 60
ANSWER_TOKENS = 256


@dataclass(frozen=True)
class Shape:
    """Size of a Llama model."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    key_value_heads: int


SHAPE = Shape(layers=8, hidden=1024, intermediate=2048, heads=16, key_value_heads=4)
"""A decode step of some 15 ms on one core."""

_PRODUCTS = ["router", "kettle", "bicycle", "camera", "heater", "printer", "headset", "toaster", "drill", "lamp"]
_PROBLEMS = {
    "does not start": "hold the power key for ten seconds and plug it in again",
    "makes a loud noise": "tighten the two screws at the back and place it on a flat surface",
    "arrived with a crack": "send us a picture and we will ship a new one tomorrow",
    "is too hot": "switch it off for an hour and clean the vents with a dry cloth",
    "lost its settings": "open the menu, choose restore, and load your last backup",
    "was charged twice": "we have returned the second payment, it arrives within three days",
}
_OPENINGS = ["Hello, my {product} {problem}.", "Hi! The {product} {problem}.", "My new {product} {problem}."]
_NAMES = ["Ada", "Ben", "Chloe", "Dev", "Elif", "Femi", "Greta", "Hugo"]
_SPECIAL_TOKENS = ["<unk>", "<s>", "</s>", "<|user|>", "<|assistant|>", "<|system|>"]
_END_TOKEN = 2
_CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def main() -> None:
    """Writes what is missing under the two folders of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, required=True, help=f"folder that receives {MODEL}/")
    parser.add_argument("--data", type=Path, required=True, help="folder that receives the JSONL files")
    arguments = parser.parse_args()
    write_model(arguments.models / MODEL, SHAPE)
    write_lines(arguments.data / "support.jsonl", dialogues(DIALOGUES))
    write_lines(arguments.data / "requests.jsonl", requests(REQUESTS))


def dialogues(count: int) -> Iterator[dict[str, Any]]:
    """Support dialogues whose answer follows from the question."""
    draw = random.Random(SEED)  # noqa: S311 - no secret
    for _ in range(count):
        question, answer = _dialogue(draw)
        yield {"prompt": f"<|user|>{question}<|assistant|>", "completion": answer}


def requests(count: int) -> Iterator[dict[str, Any]]:
    """Requests in the OpenAI batch format, chats and completions in turn."""
    draw = random.Random(SEED + 1)  # noqa: S311 - no secret
    for number in range(count):
        question, _ = _dialogue(draw)
        body: dict[str, Any] = {"model": MODEL, "max_tokens": ANSWER_TOKENS, "temperature": 0.8, "seed": number}
        if number % 2:
            url, body = "/v1/completions", body | {"prompt": question}
        else:
            url, body = "/v1/chat/completions", body | {"messages": [{"role": "user", "content": question}]}
        yield {"custom_id": f"request-{number:04d}", "method": "POST", "url": url, "body": body}


def _dialogue(draw: random.Random) -> tuple[str, str]:
    product, problem, name = draw.choice(_PRODUCTS), draw.choice(list(_PROBLEMS)), draw.choice(_NAMES)
    opening = draw.choice(_OPENINGS).format(product=product, problem=problem)
    question = f"{opening} What can I do? {name}"
    answer = f"Dear {name}, please {_PROBLEMS[problem]}."
    return question, answer


def write_lines(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    """Writes a JSONL file in one piece, unless it is there."""
    if path.exists():
        print(f"{path} is there")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    part.replace(path)
    print(f"{path} written")


def write_model(folder: Path, shape: Shape) -> None:
    """Writes tokenizer, configuration and weights, unless they are there; `config.json` comes last."""
    if (folder / "config.json").exists():
        print(f"{folder} is there")
        return
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = _write_tokenizer(folder)
    _write_weights(folder / "model.safetensors", shape, vocabulary)
    part = folder / "config.json.part"
    part.write_text(json.dumps(_configuration(shape, vocabulary), indent=2), encoding="utf-8")
    part.replace(folder / "config.json")
    print(f"{folder} written")


def _write_tokenizer(folder: Path) -> int:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token=_SPECIAL_TOKENS[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=_SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    draw = random.Random(SEED)  # noqa: S311 - no secret
    tokenizer.train_from_iterator((text for _ in range(2000) for text in _dialogue(draw)), trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": _SPECIAL_TOKENS[0],
        "bos_token": _SPECIAL_TOKENS[1],
        "eos_token": _SPECIAL_TOKENS[_END_TOKEN],
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": False,
        "chat_template": _CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")
    return int(tokenizer.get_vocab_size())


def _configuration(shape: Shape, vocabulary: int) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "vocab_size": vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.key_value_heads,
        "head_dim": shape.hidden // shape.heads,
        "max_position_embeddings": CONTEXT,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": 1,
        "eos_token_id": _END_TOKEN,
    }


def _write_weights(path: Path, shape: Shape, vocabulary: int) -> None:
    import torch
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(SEED)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return (torch.randn(rows, columns, generator=generator) * WEIGHT_STD).to(torch.bfloat16)

    hidden, intermediate = shape.hidden, shape.intermediate
    key_value = hidden // shape.heads * shape.key_value_heads
    shapes = {
        "self_attn.q_proj": (hidden, hidden), "self_attn.k_proj": (key_value, hidden),
        "self_attn.v_proj": (key_value, hidden), "self_attn.o_proj": (hidden, hidden),
        "mlp.gate_proj": (intermediate, hidden), "mlp.up_proj": (intermediate, hidden),
        "mlp.down_proj": (hidden, intermediate),
    }  # fmt: skip
    tensors = {"model.embed_tokens.weight": matrix(vocabulary, hidden), "lm_head.weight": matrix(vocabulary, hidden)}
    # Answers of a random model should not end after a few words.
    tensors["lm_head.weight"][_END_TOKEN] *= 0.25
    tensors["model.norm.weight"] = torch.ones(hidden, dtype=torch.bfloat16)
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}{norm}.weight"] = torch.ones(hidden, dtype=torch.bfloat16)
        for name, (rows, columns) in shapes.items():
            tensors[f"{prefix}{name}.weight"] = matrix(rows, columns)
    part = path.with_name(path.name + ".part")
    save_file(tensors, part, metadata={"format": "pt"})
    part.replace(path)


if __name__ == "__main__":
    main()

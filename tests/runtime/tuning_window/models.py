"""Small models, and a training of them of which every bit is written down."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from memory.local_arena import LocalArena
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from rowen.runtime.tuning.window.layers import layers_of

LAYERS = 5
HANDLE_BYTES = 16384
LAYER_HANDLES = 5
"""Of a layer of the Llama."""
WHOLE = LAYERS * LAYER_HANDLES
STEPS = 3
WORDS = 48


@dataclass(frozen=True)
class Curve:
    """What a training was like: the losses, and one held out, the gradients of each step, the trained weights."""

    losses: list[float]
    gradients: list[torch.Tensor]
    weights: list[torch.Tensor]

    def is_same(self, other: "Curve") -> bool:
        """Bit for bit."""
        pairs = zip(self.gradients + self.weights, other.gradients + other.weights, strict=True)
        return self.losses == other.losses and all(torch.equal(a, b) for a, b in pairs)


def llama() -> nn.Module:
    """A Llama with LoRA and every kind of dropout."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=WORDS, hidden_size=48, intermediate_size=80, num_hidden_layers=LAYERS, num_attention_heads=4,
        num_key_value_heads=2, attention_dropout=0.1,
    )  # fmt: skip
    torch.manual_seed(1)
    modules = ["q_proj", "v_proj", "down_proj"]
    lora = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.1, target_modules=modules, task_type="CAUSAL_LM")
    return get_peft_model(LlamaForCausalLM(config), lora)


def train(model: Any, steps: int = STEPS) -> Curve:
    """Trains for some steps and evaluates once."""
    torch.manual_seed(2)
    model.train()
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=0.01)
    losses, gradients = [], []
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, step)
        loss.backward()
        gradients += [weight.grad.clone() for weight in trained]
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        losses.append(loss_of(model, steps).item())
    return Curve(losses, gradients, [weight.detach().clone() for weight in trained])


def loss_of(model: Any, step: int) -> torch.Tensor:
    words = torch.randint(0, WORDS, (2, 9), generator=torch.Generator().manual_seed(step))
    mask = torch.ones_like(words)
    mask[0, 6:] = 0
    loss: torch.Tensor = model(input_ids=words, attention_mask=mask, labels=words, use_cache=False).loss
    return loss


def arena_of(handles: int, capacity: int = WHOLE) -> LocalArena:
    return LocalArena(capacity, HANDLE_BYTES, handles)


def layers(model: nn.Module) -> list[nn.Module]:
    """The model's layers."""
    return layers_of(model)


class Block(nn.Module):
    """A layer that is nothing like a Llama's: it is called by keyword, and returns more than one thing."""

    def __init__(self, width: int, *, trained: bool) -> None:
        super().__init__()
        self.inner = nn.Linear(width, 2 * width)
        self.outer = nn.Linear(2 * width, width)
        self.register_buffer("scale", torch.full((width,), 0.5))
        self.register_buffer("order", torch.arange(width).flip(0))
        self.extra = nn.Parameter(torch.full((width,), 0.1)) if trained else None
        for weight in (*self.inner.parameters(), *self.outer.parameters()):
            weight.requires_grad_(False)

    def forward(self, hidden: torch.Tensor, *, context: dict[str, Any]) -> tuple[torch.Tensor, dict[str, Any]]:
        shifted = hidden if self.extra is None else hidden * self.extra
        inner = torch.dropout(torch.relu(self.inner(shifted)), 0.2, self.training)
        mixed = hidden[..., self.order] * self.scale + hidden * hidden.mean(-1, keepdim=True)
        words = context["words"] + 1
        return self.outer(inner) + mixed * context["gain"], {"words": words, "gain": context["gain"], "name": "block"}


class Chain(nn.Module):
    """A model around such layers; every other one has nothing that is trained."""

    def __init__(self, layers: int = 4, width: int = 40) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.embedding = nn.Embedding(WORDS, width)
        self.gain = nn.Parameter(torch.ones(1))
        self.blocks = nn.ModuleList(Block(width, trained=number % 2 == 0) for number in range(layers))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(words)
        context = {"words": words, "gain": 1.5}
        for block in self.blocks:
            hidden, context = block(hidden, context=context)
        return (hidden * self.gain).square().mean() + context["words"].float().mean()


def train_chain(model: nn.Module, steps: int = STEPS) -> Curve:
    torch.manual_seed(2)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    losses, gradients = [], []
    for step in range(steps):
        words = torch.randint(0, WORDS, (3, 7), generator=torch.Generator().manual_seed(step))
        loss = model(words)
        found: Sequence[torch.Tensor] = torch.autograd.grad(loss, trained)
        gradients += list(found)
        losses.append(loss.item())
        with torch.no_grad():
            for weight, gradient in zip(trained, found, strict=True):
                weight -= 0.1 * gradient
    return Curve(losses, gradients, [weight.detach().clone() for weight in trained])

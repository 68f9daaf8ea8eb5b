"""What of a fine-tuning cannot ride in an engine."""

from typing import Any

import pytest

from rowen.crds.job.fine_tune import Learning, Lora
from rowen.crds.job.riding import RIDEABLE_MODULES, precision_obstacle, riding_obstacle
from rowen.crds.job.trainer_arguments import TrainerArguments


def arguments(**values: Any) -> Learning:
    return Learning(arguments=TrainerArguments(**values))


@pytest.mark.parametrize(
    "learning",
    [
        Learning(),
        Learning(lora=Lora(target_modules=["all-linear"])),
        Learning(lora=Lora(target_modules=list(RIDEABLE_MODULES))),
        Learning(lora=Lora(target_modules=["self_attn.q_proj"])),
        Learning(precision="BFloat16", packing=True, gradient_checkpointing=True),
        arguments(loss_type="nll", label_smoothing_factor=0.0, neftune_noise_alpha=0.0, router_aux_loss_coef=0.0),
        arguments(optim="sgd", weight_decay=0.1),
    ],
)
def test_nothing_stands_in_the_way(learning: Learning) -> None:
    assert riding_obstacle(learning) is None


@pytest.mark.parametrize(
    ("learning", "obstacle"),
    [
        (Learning(lora=Lora(dropout=0.1)), "lora.dropout above 0"),
        (Learning(lora=Lora(target_modules=["q_proj", "lm_head"])), "lora.targetModules: lm_head"),
        (Learning(lora=Lora(target_modules=["q_proj.other"])), "lora.targetModules: q_proj.other"),
        (arguments(loss_type="dft"), "arguments.loss_type: dft"),
        (arguments(label_smoothing_factor=0.1), "arguments.label_smoothing_factor above 0"),
        (arguments(neftune_noise_alpha=5.0), "arguments.neftune_noise_alpha above 0"),
        (arguments(router_aux_loss_coef=0.01), "arguments.router_aux_loss_coef above 0"),
    ],
)
def test_the_field_in_the_way_is_named(learning: Learning, obstacle: str) -> None:
    assert riding_obstacle(learning) == obstacle


@pytest.mark.parametrize(
    ("precision", "args", "obstacle"),
    [
        ("Float32", [], None),
        ("Float32", ["--dtype", "auto"], None),
        ("Float32", ["--dtype=float32"], None),
        ("Float32", ["--dtype", "float"], None),
        ("BFloat16", ["--max-num-seqs=8", "--dtype", "bfloat16"], None),
        ("Float32", ["--dtype=bfloat16"], "precision Float32, and the engine's --dtype bfloat16"),
        ("BFloat16", ["--dtype", "float32", "--enable-lora"], "precision BFloat16, and the engine's --dtype float32"),
        # vLLM takes the last one.
        ("Float32", ["--dtype=bfloat16", "--dtype=float32"], None),
    ],
)
def test_an_engine_may_say_that_it_computes_in_another_precision(
    precision: str, args: list[str], obstacle: str | None
) -> None:
    assert precision_obstacle(precision, args) == obstacle

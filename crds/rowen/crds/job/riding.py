"""Whether a fine-tuning can ride in the engine that serves its base model."""

from collections.abc import Sequence

from rowen.crds.job.fine_tune import ALL_LINEAR, Learning
from rowen.crds.job.riding_rows import parsed_args

RIDEABLE_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""Linear layers that the engine computes for riders, by the last part of their names."""
_PRECISIONS = {"float32": "Float32", "float": "Float32", "bfloat16": "BFloat16"}
"""Of engines with that `--dtype`."""


def riding_obstacle(learning: Learning) -> str | None:
    """Why it cannot, for people, with the field that stands in the way; None: nothing in the spec does.

    An engine can still refuse it, as one whose `precision` only it knows itself.
    """
    lora, arguments = learning.lora, learning.arguments
    if lora.dropout > 0:
        return "lora.dropout above 0"
    unknown = [name for name in lora.target_modules if name.rpartition(".")[2] not in (*RIDEABLE_MODULES, ALL_LINEAR)]
    if unknown:
        return f"lora.targetModules: {unknown[0]}"
    if arguments.loss_type not in (None, "nll"):
        return f"arguments.loss_type: {arguments.loss_type}"
    for name in ("label_smoothing_factor", "neftune_noise_alpha", "router_aux_loss_coef"):
        if getattr(arguments, name):
            return f"arguments.{name} above 0"
    return None


def precision_obstacle(precision: str, engine_args: Sequence[str]) -> str | None:
    """Why it cannot ride in an engine with those arguments, for people; None: they do not say that it cannot.

    `precision` is the job's. Where `--dtype` is `auto` or left out, the type is that of the model's files.
    """
    dtype = " ".join(dict(parsed_args(engine_args)).get("--dtype", ()))
    if _PRECISIONS.get(dtype, precision) == precision:
        return None
    return f"precision {precision}, and the engine's --dtype {dtype}"

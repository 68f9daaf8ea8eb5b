"""What `fineTune.arguments` may hold: a part of the trainer's own configuration, in its own names.

Generated from TRL's `SFTConfig` by `python -m rowen.runtime.tuning.generate`: do not edit.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from rowen.crds.base import ApiModel


class TrainerArguments(ApiModel):
    """Further arguments of the trainer (TRL's `SFTConfig`), in its own names."""

    model_config = ConfigDict(alias_generator=None, strict=True)

    optim: Literal["adamw_torch", "adamw_torch_fused", "adafactor", "sgd", "adagrad", "rmsprop"] | None = None
    """The optimizer to use."""
    weight_decay: Annotated[float, Field(ge=0)] | None = None
    """Weight decay coefficient applied by the optimizer."""
    adam_beta1: Annotated[float, Field(ge=0, lt=1)] | None = None
    """The exponential decay rate for the first moment estimates (momentum) in Adam-based optimizers."""
    adam_beta2: Annotated[float, Field(ge=0, lt=1)] | None = None
    """The exponential decay rate for the second moment estimates (variance) in Adam-based optimizers."""
    adam_epsilon: Annotated[float, Field(ge=0)] | None = None
    """Epsilon value for numerical stability in Adam-based optimizers."""
    label_smoothing_factor: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Label smoothing factor to prevent overconfidence."""
    neftune_noise_alpha: Annotated[float, Field(ge=0)] | None = None
    """If not None, activates NEFTune noise embeddings."""
    loss_type: Literal["nll", "dft"] | None = None
    """Type of loss to use."""
    router_aux_loss_coef: Annotated[float, Field(ge=0)] | None = None
    """Coefficient of the load-balancing auxiliary loss for Mixture-of-Experts (MoE) models, added to the training
    loss with this weight."""

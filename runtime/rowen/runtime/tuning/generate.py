"""Writes the API model of `fineTune.arguments` from the trainer's own configuration.

`python -m rowen.runtime.tuning.generate [--check]`. The control plane checks arguments without the trainer's
libraries, so their names, types and values are written down in `rowen.crds.job.trainer_arguments`.
"""

import argparse
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import Field, fields
from pathlib import Path

from trl.trainer.sft_config import SFTConfig

import rowen.crds.job

PASSED_ON = (
    "optim", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon", "label_smoothing_factor",
    "neftune_noise_alpha", "loss_type", "router_aux_loss_coef",
)  # fmt: skip
"""What a job may set in the trainer's own names: neither what a field of Rowen's names, nor what Rowen decides."""
VALUES = {
    "optim": ("adamw_torch", "adamw_torch_fused", "adafactor", "sgd", "adagrad", "rmsprop"),
    "loss_type": ("nll", "dft"),
}
"""Of the values that the trainer knows those that need no further library and are not about to go."""
BOUNDS = {
    "weight_decay": "ge=0", "adam_beta1": "ge=0, lt=1", "adam_beta2": "ge=0, lt=1", "adam_epsilon": "ge=0",
    "label_smoothing_factor": "ge=0, lt=1", "neftune_noise_alpha": "ge=0", "router_aux_loss_coef": "ge=0",
}  # fmt: skip
"""Outside of which torch or the trainer ends with an error; its configuration does not tell them."""
TARGET = Path(rowen.crds.job.__path__[0]) / "trainer_arguments.py"
_LINE_LENGTH = 118

_HEAD = '''"""What `fineTune.arguments` may hold: a part of the trainer's own configuration, in its own names.

Generated from TRL's `SFTConfig` by `python -m rowen.runtime.tuning.generate`: do not edit.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from rowen.crds.base import ApiModel


class TrainerArguments(ApiModel):
    """Further arguments of the trainer (TRL's `SFTConfig`), in its own names."""

    model_config = ConfigDict(alias_generator=None, strict=True)

'''


def text() -> str:
    """The module's source. Raises `ValueError` when the trainer has an argument no more, or takes other values."""
    known = {field.name: field for field in fields(SFTConfig)}
    missing = [name for name in PASSED_ON if name not in known]
    if missing:
        raise ValueError(f"the trainer has no argument {missing[0]}")
    return _HEAD + "".join(line for name in PASSED_ON for line in _lines(known[name]))


def main() -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the file is out of date")
    if parser.parse_args().check:
        if TARGET.read_text(encoding="utf-8") == text():
            return 0
        sys.stderr.write(f"{TARGET} differs from the trainer: run python -m rowen.runtime.tuning.generate\n")
        return 1
    TARGET.write_text(text(), encoding="utf-8")
    return 0


def _lines(field: "Field[object]") -> Iterator[str]:
    yield f"    {field.name}: {_type(field)} | None = None\n"
    description = str(field.metadata["help"]).split(". ")[0].rstrip(".").replace("`'", "`").replace("'`", "`") + "."
    yield textwrap.fill(f'"""{description}"""', _LINE_LENGTH, initial_indent=" " * 4, subsequent_indent=" " * 4) + "\n"


def _type(field: "Field[object]") -> str:
    if field.name in VALUES:
        return f"Literal[{', '.join(map(repr, VALUES[field.name]))}]".replace("'", '"')
    options = str(field.type).removeprefix("<class '").removesuffix("'>").split(" | ")
    [kind] = [option for option in options if option != "None"]
    return f"Annotated[{kind}, Field({BOUNDS[field.name]})]"


if __name__ == "__main__":
    sys.exit(main())

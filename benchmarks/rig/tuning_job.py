"""A fine-tuning job outside a cluster: what it is told, and who hears of its steps."""

import time
from collections.abc import Callable
from typing import Any

from typing_extensions import override

from rowen.crds.job.fine_tune import Lora
from rowen.crds.job.worker import Location, ModelLocation, TuningSpec
from rowen.runtime.native import NoTenant


class Steps(NoTenant):
    """The tenant's side of progress: calls back with the number, the time and the tokens so far of each step."""

    def __init__(self, step: Callable[[int, float, int], None]) -> None:
        self._step = step

    @override
    def progress(self, completed: int, total: int, tokens: int) -> None:
        self._step(completed, time.monotonic(), tokens)


def tuning_spec(model: str, dataset: str, output: str, **more: Any) -> TuningSpec:
    """LoRA as it is by default, on all rows of the dataset; `more` are further fields."""
    return TuningSpec(
        base_model=ModelLocation(name_or_path=model),
        dataset=Location(where=dataset),
        output=Location(where=output),
        lora=Lora(),
        held_out_fraction=0.0,
        **more,
    )

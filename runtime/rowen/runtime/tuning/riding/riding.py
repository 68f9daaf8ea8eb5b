"""The model is computed by the engine that serves it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from peft import PeftModel
from typing_extensions import override

from rowen.crds.job.riding import riding_obstacle
from rowen.crds.job.worker import RIDE_REFUSED, ExitCode, TuningSpec
from rowen.runtime.coserve.ride_link import RideLink
from rowen.runtime.failure import WorkerError
from rowen.runtime.tuning import adapter
from rowen.runtime.tuning.computing import Computing
from rowen.runtime.tuning.fingerprint import model_digest
from rowen.runtime.tuning.riding.ride import Ride
from rowen.runtime.tuning.riding.stand_in import RidingAdapter, load_stand_in
from rowen.runtime.tuning.riding.trainer import RidingTrainer
from rowen.runtime.tuning.training.trainer import Trainer


class Riding(Computing):
    """In an engine. One model at a time."""

    def __init__(self, spec: TuningSpec, model: Path, link: RideLink) -> None:
        """`model`: folder with a copy of the base model."""
        self._spec = spec
        self._model = model
        self._link = link
        self._ride: tuple[Ride, RidingAdapter] | None = None

    @property
    @override
    def recomputes(self) -> bool:
        return True

    @contextmanager
    @override
    def model(self, batch_tokens: int) -> Iterator[PeftModel]:
        obstacle = riding_obstacle(self._spec)
        if obstacle is not None:
            raise WorkerError(RIDE_REFUSED, f"no engine computes it for riders: {obstacle}", ExitCode.RETRY)
        model = adapter.add_adapter(load_stand_in(self._model), self._spec)
        riding = RidingAdapter(model)
        ride = Ride(self._link, model_digest(self._model), self._spec.precision, riding)
        self._ride = ride, riding
        try:
            yield model
        finally:
            ride.close()

    @override
    def trainer(self, model: PeftModel, *arguments: Any, **named: Any) -> Trainer:
        if self._ride is None:
            raise ValueError("a trainer without its model")
        ride, riding = self._ride
        return RidingTrainer(model, *arguments, ride=ride, adapter=riding, **named)

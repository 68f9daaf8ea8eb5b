"""Jobs that are computed in serving engines: which ones can be, and what they are called."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rowen.crds.job.batch_inference import BatchInference
from rowen.crds.job.offline_job import OfflineJobSpec
from rowen.crds.job.offline_job_status import CO_SERVE
from rowen.crds.job.riding import precision_obstacle, riding_obstacle
from rowen.crds.job.riding_rows import rows_obstacle
from rowen.crds.service.online_service import OnlineServiceSpec

Part = TypeVar("Part", float, NDArray[np.float64])
_CLASS = f"{CO_SERVE}|"
_BUSY_PART = 0.1
"""Of a busy engine: enough for a first job to be placed there and measured."""


@dataclass(frozen=True, slots=True)
class Served:
    """What the engines of a service compute."""

    namespace: str
    model: str
    """Reference of the model; claims and secrets are of the namespace."""
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rider:
    """What decides in which engines a job can be computed."""

    model: str
    """Reference of its model, as of `Served`."""
    obstacle: str = ""
    """What keeps it out of every engine, for people; empty where nothing in its spec does."""
    batch: BatchInference | None = None
    """Where it is one of rows."""
    precision: str = ""
    """That it is computed in, where it is a fine-tuning."""

    def obstacle_in(self, args: Sequence[str]) -> str:
        """What keeps it out of engines with these arguments; empty where nothing does."""
        if self.obstacle:
            return self.obstacle
        if self.batch is not None:
            return rows_obstacle(self.batch, args) or ""
        return precision_obstacle(self.precision, args) or "" if self.precision else ""


def served_by(spec: OnlineServiceSpec, namespace: str) -> Served | None:
    """What jobs can ride along with in a service of that namespace; None where none rides."""
    if spec.harvest.mode != CO_SERVE or spec.engine is None or spec.slo.without_time():
        return None
    return Served(namespace, spec.engine.model.reference, tuple(spec.engine.args))


def rider_of(spec: OfflineJobSpec) -> Rider | None:
    """The job as one that may ride; None of a template, of which nothing is known."""
    several = "spec.devices above 1" if spec.devices > 1 else ""
    if spec.fine_tune is not None:
        tune = spec.fine_tune
        return Rider(tune.base_model.reference, several or riding_obstacle(tune) or "", precision=tune.precision)
    if spec.batch_inference is not None:
        return Rider(spec.batch_inference.model.reference, several, spec.batch_inference)
    return None


def ride_class(workload: str) -> str:
    """The class of a workload's jobs that ride: what is learned of them is kept apart."""
    return f"{_CLASS}{workload}"


def own_class(workload: str) -> str:
    """The class without that: of the same jobs where they run by themselves."""
    return workload.removeprefix(_CLASS)


def assumed_part(idle: Part) -> Part:
    """What an engine gives those that ride in it, of a job's throughput alone, before anything was measured.

    An idle engine gives all of it. A busy one gives what is spare in its steps: that depends on the model, the requests
    and the machine, so little is taken for granted. `idle`: the device's idle fraction.
    """
    return idle + _BUSY_PART * (1.0 - idle)

"""Offline jobs: classes of them, and when which job arrives."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from rowen.crds.base import quantity_text
from rowen.scheduler.model.memory import MemoryCurve, MemoryNeed, memory_factors
from rowen.simulator.arrays import Floats
from rowen.simulator.json_file import InputError, read_as, read_json
from rowen.simulator.sources.source import generator

_GIB = 1 << 30
_HOUR_SECONDS = 3600.0
_PROFILE_DOUBT = 0.1
"""Of a memory curve that a job brings; as the scheduler takes it."""
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Bytes = Annotated[int, Field(ge=0)]


class JobClass(BaseModel):
    """Jobs that are alike but for their length. Amounts of memory are for each device."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=63)]
    share: Positive = 1.0
    """How many of all jobs are of this class, beside the others' numbers."""
    devices: Annotated[int, Field(ge=1, le=64)] = 1
    """In lockstep, on one node."""
    tokens_per_second: Positive = 1000.0
    """Alone on its devices, with all the memory that it wants."""
    mean_hours: Positive = 2.0
    """That a job takes alone, in the mean; lengths are log-normal."""
    spread: Annotated[float, Field(ge=0, le=3)] = 0.8
    """Standard deviation of the length's logarithm."""
    memory_bytes: Bytes = 2 * _GIB
    """For itself."""
    want_bytes: Bytes = 16 * _GIB
    """Of the pool; with more it is no faster."""
    curve: tuple[tuple[Bytes, Fraction], ...] = ((0, 0.1), (4 * _GIB, 0.6), (16 * _GIB, 1.0))
    """Bytes of the pool, and the throughput with them as a fraction of that with all; straight lines in between."""
    loss: Annotated[float, Field(ge=0, le=10)] = 0.1
    """What memory that is missing costs beyond the curve: this times the missing part of `want_bytes`."""
    slas: Annotated[tuple[Fraction | None, ...], Field(min_length=1)] = (None,)
    """Least fraction of its throughput alone; each job has one of them, all equally often. None: best effort."""
    priority: int = 0

    @model_validator(mode="after")
    def _ascending(self) -> "JobClass":
        amounts, fractions = [point[0] for point in self.curve], [point[1] for point in self.curve]
        if not self.curve or amounts != sorted(set(amounts)) or fractions != sorted(fractions):
            raise ValueError("curve: at least one point, with ascending bytes and fractions that never fall")
        return self

    @property
    def need(self) -> MemoryNeed:
        """What it does with memory of the pool."""
        points = tuple((float(memory), worth) for memory, worth in self.curve)
        return MemoryNeed(MemoryCurve(points), self.want_bytes, self.loss, _PROFILE_DOUBT)

    def memory_factor(self, available: Floats) -> Floats:
        """M for each amount of memory (bytes): the scheduler's, of memory that stays as it is."""
        return memory_factors(self.need, available[:, None])


DEFAULT_CLASSES = (
    JobClass(name="batch", share=2.0, want_bytes=24 * _GIB, slas=(None, None, 0.3),
             curve=((0, 0.05), (4 * _GIB, 0.45), (12 * _GIB, 0.8), (24 * _GIB, 1.0))),
    JobClass(name="tune", share=2.0, memory_bytes=4 * _GIB, want_bytes=8 * _GIB, tokens_per_second=3000.0, loss=0.0,
             mean_hours=4.0, curve=((0, 0.4), (8 * _GIB, 1.0)), slas=(None, 0.2, 0.4)),
)  # fmt: skip
"""Made up: a batch job that wants a large KV cache, a tuner that can do with less."""


@dataclass(frozen=True, slots=True)
class Job:
    """One job."""

    number: int
    kind: JobClass
    arrival: float
    """Seconds."""
    tokens: int
    """That it has to process."""
    sla: float | None

    @property
    def name(self) -> str:
        """Unique."""
        return f"{self.kind.name}-{self.number}"


def arriving(
    classes: tuple[JobClass, ...], devices: int, demand: float, first: int, seconds: float, seed: int
) -> tuple[Job, ...]:
    """The jobs of the simulated time, in order of arrival: `first` at its begin, the others at random moments.

    `demand`: device time alone that the later ones need together, as a part of all device time.
    """
    source = generator(seed, 0)
    shares = np.array([kind.share for kind in classes])
    needs = np.array([kind.mean_hours * _HOUR_SECONDS * kind.devices for kind in classes])
    mean_need = float((shares * needs).sum() / shares.sum())
    count = int(source.poisson(demand * devices * seconds / mean_need))
    arrivals = np.concatenate((np.zeros(first), np.sort(source.uniform(0.0, seconds, count))))
    kinds = source.choice(len(classes), size=len(arrivals), p=shares / shares.sum())
    return tuple(
        _job(number, classes[int(kind)], float(arrival), source)
        for number, (arrival, kind) in enumerate(zip(arrivals, kinds, strict=True))
    )


def _job(number: int, kind: JobClass, arrival: float, source: np.random.Generator) -> Job:
    mean = kind.mean_hours * _HOUR_SECONDS * kind.tokens_per_second
    length = source.lognormal(np.log(mean) - kind.spread**2 / 2, kind.spread)
    return Job(number, kind, arrival, max(1, round(length)), kind.slas[int(source.integers(len(kind.slas)))])


def read_classes(path: Path) -> tuple[JobClass, ...]:
    """Reads a JSON list of job classes. Raises `InputError` with the faults of all of them."""
    content = read_json(path)
    if not isinstance(content, list) or not content:
        raise InputError(
            [f"{path}: a list of job classes was expected{', this one is empty' if content == [] else ''}"]
        )
    found: dict[str, JobClass] = {}
    faults: list[str] = []
    for number, entry in enumerate(content, 1):
        where = _where(path, number, entry)
        try:
            kind = read_as(JobClass, entry, where)
        except InputError as error:
            faults += error.faults
            continue
        if kind.name in found:
            faults.append(f"{where}: name: a name of its own was expected, an earlier class has this one")
        found[kind.name] = kind
    if faults:
        raise InputError(faults)
    return tuple(found.values())


def never_placed(kind: JobClass, devices: int, room_bytes: int) -> str:
    """Why no node has a place for its jobs, however empty; empty where one has.

    `devices`: of a node; `room_bytes`: what the engine leaves on each at its largest.
    """
    if kind.devices > devices:
        return f"devices: at most {devices}, as a node has (--devices), was expected, not {kind.devices}"
    if kind.memory_bytes > room_bytes:
        left = f"at most {room_bytes} ({quantity_text(room_bytes)}), as the engine leaves on a device,"
        return f"memory_bytes: {left} was expected, not {kind.memory_bytes} ({quantity_text(kind.memory_bytes)})"
    return ""


def _where(path: Path, number: int, entry: object) -> str:
    name = entry.get("name") if isinstance(entry, dict) else None
    return f"{path}, job class {number}" + (f" ({name})" if isinstance(name, str) and name.isprintable() else "")

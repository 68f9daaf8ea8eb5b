"""Tasks that arrive: their times, lengths, kinds, and the noise of their passes; drawn by a seed."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from mixing.setup import NOISE, STAGES, Machine, Model
from numpy.typing import NDArray
from traffic.traffic import TRACES

from rowen.demo.traffic.excerpt import load
from rowen.scheduler.lemix.stage_time import StagePass, StageTime, profiled
from rowen.scheduler.lemix.task import Task

TASKS = 1000
PROFILED = 200
_MEDIAN_LENGTH, _LENGTH_DEVIATION, _LEAST_LENGTH, _MOST_LENGTH = 120.0, 0.6, 8, 512
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Point:
    """One place of the grid."""

    arrivals: str
    """`poisson`, or the name of a trace."""
    model: Model
    rate: float
    """Tasks per second, of both kinds."""
    training: float
    """Part of the tasks that train."""

    @property
    def name(self) -> str:
        """As it stands in the output."""
        return f"{self.arrivals}_{self.model.name}_{self.rate:g}_{self.training:g}"


@dataclass(frozen=True, slots=True)
class Workload:
    """The same for every arm."""

    tasks: tuple[Task, ...]
    noise: Floats
    """By task, direction (0 forward) and stage."""
    machine: Machine
    time: StageTime
    """As profiled, on other tasks."""


@cache
def _requests(trace: str) -> tuple[Floats, Floats]:
    rows = load(TRACES[trace])
    return np.array([row.arrival for row in rows]), np.array([float(row.context_tokens) for row in rows])


def _lengths(arrivals: str, count: int, source: np.random.Generator) -> Floats:
    if arrivals != "poisson":
        return source.choice(_requests(arrivals)[1], count)
    drawn = source.lognormal(np.log(_MEDIAN_LENGTH), _LENGTH_DEVIATION, count)
    return np.clip(np.rint(drawn), _LEAST_LENGTH, _MOST_LENGTH)


def _arrivals(point: Point, source: np.random.Generator) -> tuple[Floats, Floats]:
    """Times, and lengths in their order: a stretch of the trace with its clock set to the rate."""
    if point.arrivals == "poisson":
        times = np.cumsum(source.exponential(1.0 / point.rate, TASKS))
        return times - times[0], _lengths("poisson", TASKS, source)
    times, lengths = _requests(point.arrivals)
    begin = int(source.integers(0, len(times) - TASKS + 1))
    stretch = times[begin : begin + TASKS] - times[begin]
    return stretch * (TASKS / point.rate / stretch[-1]), lengths[begin : begin + TASKS]


@cache
def _machine(arrivals: str, model: Model) -> Machine:
    """Mean passes take what Table II says, whatever the lengths are."""
    drawn_once = arrivals == "poisson"
    lengths = _lengths(arrivals, 100_000, np.random.default_rng(0)) if drawn_once else _requests(arrivals)[1]
    return Machine(model, float(lengths.mean()), float((lengths**2).mean()))


def _profile(point: Point, machine: Machine, source: np.random.Generator) -> StageTime:
    noise = np.exp(source.normal(0.0, NOISE, (PROFILED, 2)))
    passes = []
    for length, (forward, backward) in zip(_lengths(point.arrivals, PROFILED, source), noise, strict=True):
        task = Task(0.0, int(length), trains=True)
        passes.append(
            StagePass(
                task,
                machine.pass_seconds(task.work, backward=False, noise=float(forward)),
                machine.pass_seconds(task.work, backward=True, noise=float(backward)),
            )
        )
    return profiled(passes)


def drawn(point: Point, seed: int) -> Workload:
    """The workload of one seed."""
    source = np.random.default_rng([seed, *point.name.encode()])
    times, lengths = _arrivals(point, source)
    trains = source.random(TASKS) < point.training
    machine = _machine(point.arrivals, point.model)
    rows: Any = zip(times.tolist(), lengths.tolist(), trains.tolist(), strict=True)
    tasks = tuple(Task(arrival, int(length), trains=kind) for arrival, length, kind in rows)
    noise = np.exp(source.normal(0.0, NOISE, (TASKS, 2, STAGES)))
    return Workload(tasks, noise, machine, _profile(point, machine, source))

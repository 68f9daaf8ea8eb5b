"""What a job asks for, and the places that a search has found for it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rowen.scheduler.model.appetite import Appetite
from rowen.scheduler.model.mode import mode_of, mode_told
from rowen.scheduler.model.prediction import Prediction
from rowen.scheduler.model.promise import NO_PROMISE, Promise
from rowen.scheduler.monitor.backoff import EVERY_NODE, Backoff
from rowen.scheduler.snapshot import JobView

LEAST_FRACTION = 0.005
"""Less is not worth a pod."""


@dataclass(frozen=True, slots=True)
class Request:
    """A job that looks for a place."""

    job: JobView
    promise: Promise
    """What a prediction has to clear."""
    backoffs: Mapping[str, Backoff]
    """Those that have not ended, by node or `EVERY_NODE`."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Its throughput alone on a device type over that on the type that suits it best; 1 where it is not known."""
    appetite: Appetite | None = None
    """What it does with memory of the pool; None where it may have none."""
    away: Mapping[str, str] = field(default_factory=dict)
    """Nodes that its spreading excludes, and why."""
    seat_promise: Promise = NO_PROMISE
    """What the prediction of a seat in an engine has to clear."""

    @property
    def avoided(self) -> frozenset[str]:
        """Nodes on which it may not be for what has happened there, or who is there."""
        return frozenset((*self.backoffs, *self.away))

    @property
    def barred(self) -> bool:
        """Whether no node will do."""
        return EVERY_NODE in self.backoffs

    def least(self, uncertainty: float = 0.0) -> float:
        """Least predicted fraction that is accepted of a prediction of that relative standard deviation.

        Without an SLA enough to be worth a pod.
        """
        return LEAST_FRACTION if self.job.sla is None else self.promise.need(uncertainty)

    def seat_least(self, uncertainties: NDArray[np.float64]) -> NDArray[np.float64]:
        """The same of many predictions of seats."""
        if self.job.sla is None:
            return np.full_like(uncertainties, LEAST_FRACTION)
        return self.seat_promise.needs(uncertainties)


class Candidate(NamedTuple):
    """Devices on which a job could run, with the factors and why not, or why."""

    node: str
    devices: tuple[str, ...]
    prediction: Prediction
    refusal: str
    """Which factor decided against it; empty when the job fits."""
    gain: float = 0.0
    """Throughput that is harvested in addition, in devices; 0 when the job does not fit."""
    rate: float = 1.0
    """Throughput alone on these devices over that on the device type that suits the job best."""
    rides: bool = False
    """Whether it is a seat in the device's engine."""
    shares: bool = False
    """Whether each of its devices is shared with the engine's requests."""

    @property
    def rank(self) -> tuple[bool, float, float, str, tuple[str, ...]]:
        """Best first: what fits, then most harvest, then highest prediction, then by name."""
        return bool(self.refusal), -self.gain, -self.prediction.fraction, self.node, self.devices

    @property
    def place(self) -> str:
        """Node and devices, for people."""
        return place_told(self.node, self.devices, rides=self.rides, shares=self.shares)

    @property
    def product(self) -> str:
        """The factors in the formula's order, for people."""
        return seat_told(self.prediction) if self.rides else product_told(self.prediction)


def place_told(node: str, devices: Iterable[str], *, rides: bool, shares: bool) -> str:
    """Node and devices, for people."""
    return f"{node}/{'+'.join(devices)}{mode_told(mode_of(rides=rides, shares=shares))}"


def factors_told(prediction: Prediction) -> str:
    """The factors, for people, the smallest first; of memory and sharing what takes something."""
    told = [("idle", prediction.idle)]
    told += [("memory", prediction.memory)] if prediction.memory < 1.0 else []
    told += [("sharing", prediction.sharing)] if prediction.sharing < 1.0 else []
    return " x ".join(f"{name} {factor:.2f}" for name, factor in sorted(told, key=lambda factor: factor[1]))


def product_told(prediction: Prediction) -> str:
    """The factors in the formula's order, for people."""
    memory = f"memory {prediction.memory:.2f} x " if prediction.memory < 1.0 else ""
    return f"idle {prediction.idle:.2f} x {memory}sharing {prediction.sharing:.2f}"


def seat_told(prediction: Prediction) -> str:
    """The factors of a seat in an engine, for people."""
    return f"engine {prediction.idle:.2f} x sharing {prediction.sharing:.2f}"


def rate_told(rate: float) -> str:
    """A rate, for people; empty where it changes nothing."""
    return f", x rate {rate:.2f}" if rate != 1.0 else ""


@dataclass(frozen=True, slots=True)
class Choice:
    """The candidates that were looked at, best first; the first is chosen if any is."""

    candidates: tuple[Candidate, ...]

    @property
    def chosen(self) -> Candidate | None:
        """Where the job goes, or None."""
        return self.candidates[0] if self.candidates and not self.candidates[0].refusal else None

"""Training that is not placed beside a service which misses its SLO: LeMix's deferral at the cluster's clock."""

import math
from dataclasses import dataclass

LEAST_REQUESTS = 50
"""Fewer say nothing of an SLO."""
_DEVIATIONS = 2.0


@dataclass(frozen=True, slots=True)
class Attainment:
    """A service's requests of one window."""

    requests: int
    met: int
    """Those within the SLO."""
    target: float
    """Part that should be, in (0, 1]."""


@dataclass(frozen=True, slots=True)
class Restraint:
    """Whether new training waits, and why."""

    restrained: bool
    reason: str


def restraint(attainment: Attainment, before: bool) -> Restraint:
    """Begins when the SLO is missed by more than two deviations; ends when it is kept. `before`: held so far.

    In between, and with fewer than `LEAST_REQUESTS`, it stays as it was: it does not flap on a few requests.
    """
    if attainment.requests < LEAST_REQUESTS:
        return Restraint(before, f"{attainment.requests} requests, fewer than {LEAST_REQUESTS}: as before")
    part = attainment.met / attainment.requests
    compared = f"{part:.3f} of {attainment.requests} requests within the SLO, target {attainment.target:.3f}"
    if part >= attainment.target:
        return Restraint(False, compared)
    # The deviation is that of a service which just keeps its target: of one that keeps it never it would be 0.
    noise = _DEVIATIONS * math.sqrt(attainment.target * (1.0 - attainment.target) / attainment.requests)
    if part < attainment.target - noise:
        return Restraint(True, compared)
    return Restraint(before, f"{compared}: within {noise:.3f}, as before")

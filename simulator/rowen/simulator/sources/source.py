"""What every source of requests offers."""

from typing import Protocol

import numpy as np

from rowen.simulator.requests import Requests


class Source(Protocol):
    """Requests of the online services. The same stretch of time always gives the same requests."""

    def between(self, service: int, start: float, end: float) -> Requests:
        """What arrives at a service, counted from 0, in [start, end) of the simulated seconds."""


def generator(seed: int, *key: int) -> np.random.Generator:
    """Random numbers of their own for each key."""
    return np.random.default_rng([seed, *key])

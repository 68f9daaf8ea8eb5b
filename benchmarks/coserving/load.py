"""Requests that come at random, independently of each other (Poisson)."""

import math
import random
from dataclasses import dataclass

from rowen.demo.traffic.scaling import Request

WARM_UP = 99
"""The block of what is not measured."""
_FIRST_TOKEN, _VOCABULARY = 8, 256


@dataclass(frozen=True)
class Size:
    """Of each request, in tokens; prompts differ."""

    prompt: tuple[int, int]
    """Least and most."""
    output: int


@dataclass(frozen=True)
class Traffic:
    """What one run is put under."""

    load: float
    """Requests in flight on average, were none to wait for another; the load's name."""
    rate: float
    """Requests a second; may be 0."""
    seconds: float
    size: Size
    block: int = 0
    seed: int = 0
    """Of the benchmark."""

    def requests(self) -> list[Request]:
        """The same for the same load, block and seed, but for the rate, which is measured: it moves all alike."""
        return poisson(self.rate, self.seconds, self.size, f"{self.seed} {self.load:g} {self.block}")


def poisson(rate: float, seconds: float, size: Size, seed: str) -> list[Request]:
    """Of `rate` requests a second, none where that is 0; the same for the same arguments."""
    source = random.Random(seed)
    found: list[Request] = []
    arrival = source.expovariate(1.0) / rate if rate else math.inf
    while arrival < seconds:
        length = source.randint(*size.prompt)
        prompt = tuple(source.randrange(_FIRST_TOKEN, _VOCABULARY) for _ in range(length))
        found.append(Request(arrival, prompt, size.output))
        arrival += source.expovariate(1.0) / rate
    return found

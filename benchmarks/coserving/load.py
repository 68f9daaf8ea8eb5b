"""Requests that come at random, independently of each other (Poisson)."""

import random
from dataclasses import dataclass

from rowen.demo.traffic.scaling import Request

_FIRST_TOKEN, _VOCABULARY = 8, 256


@dataclass(frozen=True)
class Size:
    """Of each request, in tokens; prompts differ."""

    prompt: tuple[int, int]
    """Least and most."""
    output: int


def poisson(rate: float, seconds: float, size: Size, seed: int) -> list[Request]:
    """Of `rate` requests a second; the same for the same arguments."""
    source = random.Random(f"{rate} {seconds} {seed}")
    found: list[Request] = []
    arrival = source.expovariate(rate)
    while arrival < seconds:
        length = source.randint(*size.prompt)
        prompt = tuple(source.randrange(_FIRST_TOKEN, _VOCABULARY) for _ in range(length))
        found.append(Request(arrival, prompt, size.output))
        arrival += source.expovariate(rate)
    return found

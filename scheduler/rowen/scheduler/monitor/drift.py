"""How much of what is due is missing: a bad minute is little of it, a node that is not what it was soon is much."""

from math import inf


def missing(before: float, due: float, got: float, elapsed: float, covered: float = 0.0, most: float = inf) -> float:
    """Seconds of the throughput `due` that are missing: a one-sided CUSUM (Page, 1954).

    `due` and `got` are fractions of the throughput alone. A relative shortfall of `covered` counts as nothing, and what
    exceeds what is due pays back. `elapsed`: seconds since the report before. `most`: more of them are not remembered.
    """
    if due <= 0.0:
        return 0.0
    return min(most, max(0.0, before + elapsed * (1.0 - covered - got / due)))

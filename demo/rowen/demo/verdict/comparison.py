"""Whether exposed requests are slow more often than queueing makes them. Pure; draws with a seed of its own.

Requests in a queue are not independent: one that is slow makes all that wait behind it slow, and at a higher load more
are slow. So an exposed request is compared with others that found as many requests in flight, or more where none found
as many, and what counts is the busy period (a time with at least one request in flight), not the request.
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

ACCUSED = 0.005
"""Offline work is to blame below this. Two groups are compared, and where slow ones are rare chance is judged too low:
together below one in twenty."""
_DRAWS = 4000
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Case:
    """A request, as far as it is compared."""

    period: int
    """Number of its busy period."""
    others: int
    """Requests in flight when it was sent."""
    exposed: bool
    above: bool
    """Whether it was slow."""


def chance(cases: Sequence[Case]) -> float:
    """Probability of so many slow ones among the exposed, or more, if busy periods differ by chance alone.

    1 where nothing can be compared. Each busy period's part in the difference keeps its size and has its sign drawn, so
    a few busy periods, however long, are no evidence.
    """
    return chance_of_signs(_parts(cases))


def chance_of_signs(parts: Sequence[float]) -> float:
    """Probability of such a sum, or a greater one, if each part had its sign by chance; 1 where it is not above 0."""
    total, parts = sum(parts), [part for part in parts if part]
    if total <= 0:
        return 1.0
    source = random.Random(0)  # noqa: S311 - a test of chance, not a secret
    reached = sum(
        sum(part if source.random() < 0.5 else -part for part in parts) >= total - _ROUNDING for _ in range(_DRAWS)
    )
    return (1 + reached) / (1 + _DRAWS)


def _parts(cases: Sequence[Case]) -> list[float]:
    """What each busy period adds to the slow exposed requests beyond those that the comparison expects."""
    found: defaultdict[int, float] = defaultdict(float)
    for others in sorted({case.others for case in cases if case.exposed}):
        exposed = [case for case in cases if case.exposed and case.others == others]
        at_least = [case for case in cases if not case.exposed and case.others >= others]
        rest = [case for case in at_least if case.others == others] or at_least
        if not rest:
            continue
        count = len(exposed) + len(rest)
        rate = sum(case.above for case in (*exposed, *rest)) / count
        # Few to compare with weigh little, however many are compared with them.
        for case in exposed:
            found[case.period] += (case.above - rate) * len(rest) / count
        for case in rest:
            found[case.period] -= (case.above - rate) * len(exposed) / count
    return list(found.values())

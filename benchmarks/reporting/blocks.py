"""Blocks of repeats that are compared with each other, and what their comparison says.

An outlier belongs to a repeat (a hiccup of the machine hits all its requests), so the unit is not the request but the
block: repeats that ran one after another under the same requests. Each block gives one ratio of per-repeat
percentiles. The estimate is the median of the ratios; its interval lies between two of the ordered ratios. That needs
no distribution of the noise, but independent blocks. Where the effect differs by stretch or order the blocks have no
median in common: the interval then is one of the median over just these, with at least the stated coverage.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

LEAST_COVERAGE = 0.95
"""Coverage that an interval has at least."""
LEAST_BLOCKS = math.ceil(1 - math.log2(1 - LEAST_COVERAGE))
"""With fewer, even from the least to the largest ratio is too narrow an interval."""


@dataclass(frozen=True)
class Block:
    """Repeats that are compared with each other."""

    number: int
    start: float
    """Where its stretch of the trace starts, in seconds."""
    arms: tuple[str, ...]
    """In the order in which they run."""


def there_and_back(
    starts: Sequence[float], arms: Sequence[str], per_start: int, source: random.Random, first: int = 0
) -> list[Block]:
    """So many blocks of all arms for each stretch, numbered from `first`.

    An order is drawn for every other block; the block after it has the same order backwards. So neither the place
    within a block nor the arm before favours any arm, and what drifts evenly cancels over the two.
    """
    blocks: list[Block] = []
    for start in starts:
        for number in range(per_start):
            order = blocks[-1].arms[::-1] if number % 2 else tuple(source.sample(list(arms), len(arms)))
            blocks.append(Block(first + len(blocks), start, order))
    return blocks


@dataclass(frozen=True)
class Interval:
    """An interval of the median."""

    low: float
    high: float
    coverage: float
    """Probability with which such an interval holds the median, if the values are independent of each other."""


def median_interval(values: Sequence[float]) -> Interval | None:
    """The narrowest interval between two of the ordered values that has the coverage; None for too few values.

    The median lies outside when at most so many of the values are on one side of it, which is a matter of coins.
    """
    ordered = sorted(values)
    count = len(ordered)
    found, beyond = None, 0.0
    for rank in range(count // 2):
        beyond += math.comb(count, rank) / 2**count
        if 1 - 2 * beyond < LEAST_COVERAGE:
            break
        found = Interval(ordered[rank], ordered[count - 1 - rank], 1 - 2 * beyond)
    return found


@dataclass(frozen=True)
class Increase:
    """How much larger a figure is in one arm than in the other, as a fraction."""

    blocks: int
    estimate: float | None
    """None without blocks."""
    interval: Interval | None
    """None where the blocks are too few for it."""

    @property
    def missing(self) -> str:
        """Why there is no interval."""
        return f"{self.blocks} of the {LEAST_BLOCKS} blocks that an interval of {LEAST_COVERAGE:.0%} takes"


def increase(pairs: Sequence[tuple[float, float]]) -> Increase:
    """From pairs of a figure and what it is compared with, one of each block.

    A figure that failed requests make infinite is an infinite increase; beside an infinite base a finite one is the
    least there is. Pairs with a NaN and pairs that are both infinite are left out: they say nothing.
    """
    increases = [figure / base - 1 for figure, base in pairs if not math.isnan(figure / base)]
    return Increase(len(increases), median(increases) if increases else None, median_interval(increases))


def against_itself(values: Sequence[float]) -> Increase:
    """Neighbouring repeats of one arm, two by two: what noise makes over the time between them.

    An odd last one is left out. Repeats that lie further apart may differ by more.
    """
    return increase(list(zip(values[1::2], values[::2], strict=False)))


def verdict(found: Increase, bar: float, failed: int = 0) -> str:
    """Whether an increase keeps to a bar, as far as its interval can tell.

    Args:
        found: The increase.
        bar: Largest increase that keeps to it, as a fraction.
        failed: Requests of the compared repeats that failed. With any, nothing is within a bar.
    """
    if found.interval is None:
        return f"cannot tell (no interval: {found.missing})"
    low, high = found.interval.low, found.interval.high
    if high <= bar:
        return f"cannot tell (failed requests: {failed})" if failed else "within the bar"
    if low > bar:
        return "over the bar"
    return f"cannot tell (interval {'wider than' if high - low > bar else 'on both sides of'} the bar)"

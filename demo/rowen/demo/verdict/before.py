"""The same requests before there were jobs: what jobs have changed. Pure; in doubt nobody is accused or cleared."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rowen.demo.verdict.comparison import ACCUSED, chance_of_signs
from rowen.demo.verdict.finding import Cause, Finding, milliseconds
from rowen.demo.verdict.lateness import Lateness
from rowen.demo.verdict.objective import Target
from rowen.demo.verdict.sample import Sample
from rowen.demo.verdict.statistics import percentile


@dataclass(frozen=True)
class Pair:
    """One latency of a request, with jobs and before there were any."""

    jobs: Sample
    alone: Sample


@dataclass(frozen=True)
class Before:
    """What is known of the requests of before."""

    pairs: Sequence[Pair]
    """Of the requests that were answered both times, in the order in which they were due."""
    failed: int
    """Requests that were not answered before there were jobs."""
    replayer: Lateness
    """How late it was itself then."""


def compared(before: Before, target: Target) -> Finding:
    """Who is to blame, by who is above the target with jobs and was not before, and the other way round.

    Requests of a busy time are no independent witnesses, so what counts against jobs are busy times. As many more late
    requests as the objective allows are nobody's fault.
    """
    if before.replayer.busy:
        return Finding(Cause.BUSY, f"before there were jobs {before.replayer.told()}")
    pairs, allowed = before.pairs, (1 - target.percentile / 100) * len(before.pairs)
    times = list(_busy_times(pairs))
    value = percentile([_most(pair.alone) for pair in pairs], target.percentile)
    late, late_alone = sum(_most(pair.jobs) > target.seconds for pair in pairs), _late_alone(pairs, target)
    told = (
        f"above it were {late} of {len(pairs)} requests, and {late_alone} of the same ones before there were jobs "
        f"(p{target.percentile} {milliseconds(value)}"
        f"{f', {before.failed} were not answered then' if before.failed else ''})"
    )
    more = [sum(_least(pair.jobs) > target.seconds for pair in time) - _late_alone(time, target) for time in times]
    if sum(more) > allowed and chance_of_signs(more) < ACCUSED:
        return Finding(Cause.TENANT, f"{told}: more than chance explains")
    if not _misses_anyway(times, target):
        return Finding(Cause.UNKNOWN, f"{told}: chance may have made the difference")
    changes = [(_most(pair.jobs) > target.seconds) - (_least(pair.alone) > target.seconds) for pair in pairs]
    # As many as changed, to either side, and one standard deviation of that.
    if sum(changes) <= allowed + math.sqrt(sum(map(abs, changes))):
        return Finding(Cause.SERVICE, told)
    return Finding(Cause.UNKNOWN, f"{told}: chance may have made the difference")


def _misses_anyway(times: Sequence[Sequence[Pair]], target: Target) -> bool:
    """Whether the service missed the target before there were jobs, not counting its worst busy time: one stall."""
    worst = max(times, key=lambda time: sum(_least(pair.alone) > target.seconds for pair in time))
    others = [_least(pair.alone) for time in times if time is not worst for pair in time]
    return bool(others) and percentile(others, target.percentile) > target.seconds


def _late_alone(pairs: Sequence[Pair], target: Target) -> int:
    return sum(_most(pair.alone) > target.seconds for pair in pairs)


def _busy_times(pairs: Sequence[Pair]) -> Iterator[Sequence[Pair]]:
    """Requests that were never without one another: neither with jobs nor before."""
    begun = 0
    for index, (one, other) in enumerate(pairwise(pairs), start=1):
        if _period(one.jobs) != _period(other.jobs) and _period(one.alone) != _period(other.alone):
            yield pairs[begun:index]
            begun = index
    yield pairs[begun:]


def _period(sample: Sample) -> int:
    return sample.exposure.period


def _most(sample: Sample) -> float:
    """Seconds that were not the replayer's sending, at most."""
    return sample.seconds - sample.late


def _least(sample: Sample) -> float:
    """Nor its reading, for certain."""
    return sample.seconds - sample.late - sample.lag

"""The same requests before there were jobs: what jobs have changed. Pure; in doubt nobody is accused or cleared."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rowen.demo.verdict.comparison import ACCUSED, chance_of_signs
from rowen.demo.verdict.finding import Cause, Finding, milliseconds
from rowen.demo.verdict.lateness import Lateness
from rowen.demo.verdict.objective import Target
from rowen.demo.verdict.sample import Sample
from rowen.demo.verdict.statistics import percentile

_STRETCH_SECONDS = 5.0


@dataclass(frozen=True)
class Pair:
    """One latency of a request, with jobs and before there were any."""

    due: float
    """When it was to be sent, in seconds of either replay."""
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

    As many more late requests as the objective allows are nobody's fault. Requests of a busy time, and of seconds in
    which the machine may have been slow, are no independent witnesses: what counts against jobs are stretches of time.
    """
    pairs, allowed = before.pairs, (1 - target.percentile / 100) * len(before.pairs)
    stretches = list(_stretches(pairs))
    value = percentile([_most(pair.alone) for pair in pairs], target.percentile)
    late, late_alone = sum(_most(pair.jobs) > target.seconds for pair in pairs), _late_alone(pairs, target)
    told = (
        f"above it were {late} of {len(pairs)} requests, and {late_alone} of the same ones before there were jobs "
        f"(p{target.percentile} {milliseconds(value)}"
        f"{f', {before.failed} were not answered then' if before.failed else ''})"
    )
    more = [sum(_least(pair.jobs) > target.seconds for pair in each) - _late_alone(each, target) for each in stretches]
    if sum(more) > allowed and chance_of_signs(more) < ACCUSED:
        return Finding(Cause.TENANT, f"{told}: more than chance explains")
    if before.replayer.busy:
        return Finding(Cause.BUSY, f"{told}; before there were jobs {before.replayer.told()}")
    changed = sum((_most(pair.jobs) > target.seconds) - (_least(pair.alone) > target.seconds) for pair in pairs)
    if changed <= allowed:
        if _misses_anyway(stretches, target):
            return Finding(Cause.SERVICE, told)
        if value > target.seconds:
            because = "no more on top than the objective allows, but nothing beside its worst stretch shows a miss"
            return Finding(Cause.UNKNOWN, f"{told}: {because}")
    return Finding(Cause.UNKNOWN, f"{told}: chance may have made the difference")


def _misses_anyway(stretches: Sequence[Sequence[Pair]], target: Target) -> bool:
    """Whether the service missed the target before there were jobs, the worst stretch left out: it may be one stall."""
    worst = max(stretches, key=lambda each: sum(_least(pair.alone) > target.seconds for pair in each))
    others = [_least(pair.alone) for each in stretches if each is not worst for pair in each]
    return len(others) >= target.fewest and percentile(others, target.percentile) > target.seconds


def _late_alone(pairs: Sequence[Pair], target: Target) -> int:
    return sum(_most(pair.alone) > target.seconds for pair in pairs)


def _stretches(pairs: Sequence[Pair]) -> Iterator[Sequence[Pair]]:
    """Of five seconds at least, between two of which the service was idle before there were jobs.

    With jobs it may never have been, just because they made requests stay longer.
    """
    begun = 0
    for index, pair in enumerate(pairs):
        first, last = pairs[begun], pairs[max(begun, index - 1)]
        if pair.due - first.due >= _STRETCH_SECONDS and _period(pair.alone) != _period(last.alone):
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

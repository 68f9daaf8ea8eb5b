"""Whose fault a missed objective is. Pure; in doubt it is never put down to the service alone."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rowen.demo.verdict.before import Before, compared
from rowen.demo.verdict.comparison import ACCUSED, Case, chance
from rowen.demo.verdict.finding import Cause, Finding, milliseconds
from rowen.demo.verdict.objective import Target
from rowen.demo.verdict.sample import Sample
from rowen.demo.verdict.statistics import percentile

# What stops may take of an objective before they are to blame, whatever else is slow: the bar of benchmarks/.
_MATERIAL = 0.05
# The slow requests lie among the exposed ones by chance less often than this; above it nothing is suspected.
_CHANCE = 0.05
_MET = "sent before offline work stood still"
"""Requests that met a stop, whether or not they closed the gate themselves."""
_RODE = "of busy times in which jobs rode in the engine"


def blame(samples: Sequence[Sample], target: Target, doubt: str = "", before: Before | None = None) -> Finding:
    """Who made the samples miss the target.

    Args:
        samples: Those of all requests that were answered.
        target: What they miss.
        doubt: Why the exposures cannot be relied on; empty where they can.
        before: The same requests before there were jobs, where they were sent then.
    """

    def without(*parts: Callable[[Sample], float]) -> float:
        return percentile(
            [sample.seconds - sum(part(sample) for part in parts) for sample in samples], target.percentile
        )

    name = f"p{target.percentile}"
    on_time = without(lambda sample: sample.late)
    if on_time <= target.seconds:
        late = percentile([sample.late for sample in samples], target.percentile)
        return Finding(
            Cause.REPLAYER,
            f"the replayer sent {milliseconds(late)} late ({name}); without that it is {milliseconds(on_time)}",
        )
    prompt = without(lambda sample: sample.late, lambda sample: sample.lag)
    if prompt <= target.seconds:
        return Finding(
            Cause.UNKNOWN,
            f"the replayer's own loop was late; without what that may have taken it is {milliseconds(prompt)}",
        )
    compares = before is not None and len(before.pairs) >= target.fewest
    if doubt and not compares:
        return Finding(Cause.UNKNOWN, doubt)
    unstopped = without(lambda sample: sample.stop)
    if not doubt and (unstopped <= target.seconds or without() - unstopped > _MATERIAL * target.seconds):
        return Finding(
            Cause.TENANT, f"without the time that stops of offline work took it is {milliseconds(unstopped)}"
        )
    if before is not None and compares:
        return compared(before, target)
    at_once = without(lambda sample: sample.stop, lambda sample: sample.way)
    if at_once <= target.seconds:
        return Finding(
            Cause.UNKNOWN,
            f"without the time from sending a request to the gate's close it is {milliseconds(at_once)}; offline work "
            "may have kept the engine from its device, or the machine was too busy to deliver",
        )
    return _by_groups(samples, target)


def _count_above(samples: Iterable[Sample], target: Target) -> int:
    return sum(_above(sample, target) for sample in samples)


def _by_groups(samples: Sequence[Sample], target: Target) -> Finding:
    groups = {
        _MET: lambda sample: sample.exposure.met_stop,
        "served with offline work on the device": lambda sample: sample.exposure.tenant,
        _RODE: lambda sample: sample.exposure.riders,
    }
    doubts = []
    for name, exposed in groups.items():
        split = _Split.of(samples, target, exposed)
        if not split.concentrated():
            continue
        told = f"above it were {split.told(name)}"
        if _beyond_queueing(samples, target, exposed):
            return Finding(Cause.TENANT, f"{told}, more than queueing makes")
        doubts.append(f"{told}: queueing alone may have made that")
    if doubts:
        return Finding(Cause.UNKNOWN, doubts[0])
    return _apart(samples, target)


def _apart(samples: Sequence[Sample], target: Target) -> Finding:
    """Whether the requests that offline work had no part in miss the target by themselves."""
    rode = any(sample.exposure.riders for sample in samples)
    split = _Split.of(samples, target, _touched)
    told = f"above it were {split.told(_RODE if rode else _MET)}"
    others = [sample.served - sample.way for sample in samples if not _touched(sample)]
    if len(others) < target.fewest:
        return Finding(Cause.UNKNOWN, f"{told}: too few of those to compare with")
    if percentile(others, target.percentile) <= target.seconds:
        return Finding(Cause.UNKNOWN, f"{told}: too few to tell")
    longest = max(sample.exposure.stop for sample in samples)
    stops = "" if rode else f"stops took at most {milliseconds(longest)}; "
    waiting = percentile([sample.exposure.others for sample in samples if _above(sample, target)], 50)
    return Finding(Cause.SERVICE, f"{told}; {stops}those above it found {waiting:.0f} others in flight (p50)")


def _touched(sample: Sample) -> bool:
    return sample.exposure.met_stop or sample.exposure.riders


def _beyond_queueing(samples: Sequence[Sample], target: Target, exposed: Callable[[Sample], bool]) -> bool:
    cases = [
        Case(sample.exposure.period, sample.exposure.others, exposed(sample), _above(sample, target))
        for sample in samples
    ]
    return chance(cases) < ACCUSED


@dataclass(frozen=True)
class _Split:
    """Requests, and those of them above a target, with and without an exposure."""

    exposed: int
    exposed_above: int
    others: int
    others_above: int

    @classmethod
    def of(cls, samples: Sequence[Sample], target: Target, exposed: Callable[[Sample], bool]) -> "_Split":
        inside = [sample for sample in samples if exposed(sample)]
        outside = [sample for sample in samples if not exposed(sample)]
        return cls(len(inside), _count_above(inside, target), len(outside), _count_above(outside, target))

    def told(self, name: str) -> str:
        return (
            f"{self.exposed_above} of {self.exposed} requests {name}, {self.others_above} of the {self.others} others"
        )

    def concentrated(self) -> bool:
        """Whether those above the target lie among the exposed requests more than independent ones would by chance."""
        above, total = self.exposed_above + self.others_above, self.exposed + self.others
        ways = sum(
            math.comb(self.exposed, count) * math.comb(self.others, above - count)
            for count in range(self.exposed_above, min(above, self.exposed) + 1)
        )
        # Both are too large for floats.
        return ways / math.comb(total, above) < _CHANCE


def _above(sample: Sample, target: Target) -> bool:
    return sample.served > target.seconds

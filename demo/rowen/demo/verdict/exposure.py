"""What each request had to do with offline work: from the agent's record of the gate and the client's of the request.

Both are Unix times in seconds. Where agent and client run on different machines they are as exact as their clocks.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rowen.demo.traffic.replay import Outcome
from rowen.demo.verdict.statistics import Span, union
from rowen.demo.verdict.timeline import ServedRequest, Transition

# Two counts of the same stops may differ so far: requests that come together share one stop.
_FEW = 3
_PART = 0.2
# The gate is closed while a request is served, so the agent has a close for nearly each.
_COVERED = 0.9


@dataclass(frozen=True)
class Exposure:
    """One request and the offline work that was stopped before or while it was served."""

    recorded: bool
    """Whether the agent recorded that the gate was closed for it."""
    tenant: bool
    """Offline work had been stopped for it or for the burst that it belongs to."""
    preempted: bool
    """The gate closed on offline work after it was sent: a preemption, by the replayer's clock."""
    met_stop: bool
    """Offline work did not stand still yet when it was sent, whether or not it closed the gate itself."""
    way: float
    """From sending the burst's first request to the gate's close: the way there and the engine's wake-up."""
    stop: float
    """From the gate's close until offline work stood still."""
    still: float
    """When that was; 0 without a tenant."""
    others: int
    """Requests in flight when it was sent."""
    period: int
    """Number of the time with at least one request in flight that it was sent in."""
    riders: bool = False
    """A job rode in the engine in that time, up to its end: those before it may have waited for that."""


@dataclass(frozen=True)
class _Burst:
    """A time in which the gate was closed, and what closing it took."""

    transition: Transition
    first_sent: float

    @property
    def still(self) -> float:
        return self.transition.acknowledged or self.transition.closed

    @property
    def way(self) -> float:
        return max(0.0, self.transition.closed - self.first_sent)

    @property
    def stop(self) -> float:
        return self.still - self.transition.closed


def sent(outcome: Outcome) -> float:
    """When a request was sent."""
    return outcome.arrival + max(0.0, outcome.lateness)


def exposures(
    outcomes: Sequence[Outcome], transitions: Iterable[Transition], riding: Sequence[Span] = ()
) -> list[Exposure]:
    """The exposure of each request, in the given order. `riding`: when jobs rode in the engine."""
    bursts = [_burst(transition, outcomes) for transition in transitions]
    starts, ends = sorted(map(sent, outcomes)), sorted(outcome.end for outcome in outcomes)
    periods = [start for start, _ in union((sent(outcome), outcome.end) for outcome in outcomes)]
    found = []
    for outcome in outcomes:
        moment = sent(outcome)
        own = [burst for burst in bursts if _overlap(outcome, burst.transition)]
        stopped = [burst for burst in own if burst.transition.tenants > 0]
        period = bisect_right(periods, moment)
        begun = periods[period - 1] if period else moment
        found.append(
            Exposure(
                recorded=bool(own),
                tenant=bool(stopped),
                preempted=any(moment < burst.transition.closed for burst in stopped),
                met_stop=any(moment < burst.still for burst in stopped),
                way=max((burst.way for burst in stopped), default=0.0),
                stop=max((burst.stop for burst in stopped), default=0.0),
                still=max((burst.still for burst in stopped), default=0.0),
                others=bisect_left(starts, moment) - bisect_right(ends, moment),
                period=period,
                riders=any(start < outcome.end and begun < end for start, end in riding),
            )
        )
    return found


def _overlap(outcome: Outcome, transition: Transition) -> bool:
    return transition.closed < outcome.end and (transition.opened is None or transition.opened > sent(outcome))


def _burst(transition: Transition, outcomes: Iterable[Outcome]) -> _Burst:
    moments = (sent(outcome) for outcome in outcomes if _overlap(outcome, transition))
    return _Burst(transition, min(moments, default=transition.closed))


def doubt(found: Sequence[Exposure], requests: Iterable[ServedRequest]) -> str:
    """Why the exposures cannot be relied on; empty where they can.

    Args:
        found: Exposures of the requests that were answered.
        requests: The same requests as the agent recorded them, by the times that the engine's plugin noted.
    """
    recorded = sum(exposure.recorded for exposure in found)
    if not found or recorded < _COVERED * len(found):
        return f"the agent recorded the gate for {recorded} of {len(found)} requests only"
    here = sum(exposure.preempted for exposure in found)
    there = sum(request.preemptions > 0 and request.tenant_present for request in requests)
    if abs(here - there) > max(_FEW, _PART * max(here, there)):
        return f"the agent counted {there} requests that met offline work; by its record of the gate there were {here}"
    return ""

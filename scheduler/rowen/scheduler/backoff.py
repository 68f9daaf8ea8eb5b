"""How long a job stays away from a node that has failed it."""

from collections.abc import Mapping
from dataclasses import dataclass

from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobKey

BackoffKey = tuple[JobKey, str]
"""Job and node."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """A job's evictions from a node."""

    count: int
    until: float
    """Unix time before which the job is not placed there again."""
    reason: str


def next_backoff(previous: Backoff | None, reason: str, now: float, policy: Policy) -> Backoff:
    """One more eviction: the wait doubles each time, up to the limit."""
    count = (previous.count if previous else 0) + 1
    wait = min(policy.backoff_limit_seconds, policy.backoff_seconds * 2.0 ** min(count - 1, 30))
    return Backoff(count, now + wait, reason)


def kept(backoffs: Mapping[BackoffKey, Backoff], now: float, policy: Policy) -> dict[BackoffKey, Backoff]:
    """Without those that are long over: so late, the next eviction counts as a first one."""
    horizon = now - policy.backoff_limit_seconds
    return {key: backoff for key, backoff in backoffs.items() if backoff.until > horizon}

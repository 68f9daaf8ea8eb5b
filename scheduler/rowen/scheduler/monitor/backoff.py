"""How long a job stays away from a node that has failed it, or from all of them."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobKey

BackoffKey = tuple[JobKey, str]
"""Job and node, or `EVERY_NODE`."""
EVERY_NODE = ""
"""In place of a node: what failed the job would fail it on any."""
EVERY_NODE_LIMIT_SECONDS = 300.0
"""Longest back-off from all nodes: what ends it, such as a raised quota, is not seen here."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """A job's failures on a node, or on all: evictions, and assignments that were not taken."""

    count: Annotated[int, Field(ge=1, le=10**12)]
    until: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Unix time before which the job is not placed there again."""
    reason: str


def next_backoff(previous: Backoff | None, reason: str, node: str, now: float, policy: Policy) -> Backoff:
    """One more failure on the node, or on `EVERY_NODE`: the wait doubles each time, up to the limit."""
    count = (previous.count if previous else 0) + 1
    limit = policy.backoff_limit_seconds
    if node == EVERY_NODE:
        limit = min(limit, EVERY_NODE_LIMIT_SECONDS)
    return Backoff(count, now + min(limit, policy.backoff_seconds * 2.0 ** min(count - 1, 30)), reason)


def ahead(backoffs: Mapping[BackoffKey, Backoff], now: float) -> dict[JobKey, dict[str, Backoff]]:
    """Those that have not ended: of each job by node, or `EVERY_NODE`."""
    found: dict[JobKey, dict[str, Backoff]] = {}
    for (job, node), backoff in backoffs.items():
        if now < backoff.until:
            found.setdefault(job, {})[node] = backoff
    return found


def kept(
    backoffs: Mapping[BackoffKey, Backoff], jobs: Container[JobKey], nodes: Container[str], now: float, policy: Policy
) -> dict[BackoffKey, Backoff]:
    """Without those of jobs that are gone, and those that are over for long: the next eviction is a first one again.

    A node that is gone may come back under its name while the wait lasts; after it, it is not remembered.
    """
    horizon = now - policy.backoff_limit_seconds
    return {
        (job, node): backoff
        for (job, node), backoff in backoffs.items()
        if job in jobs and backoff.until > (horizon if node == EVERY_NODE or node in nodes else now)
    }

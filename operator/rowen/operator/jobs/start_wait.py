"""How long the job has waited for its assignment's tenant to run, in time that the operator listened to.

Nobody else's time takes part: clocks differ. A restart of the operator begins the wait anew.
"""

from dataclasses import dataclass, replace
from typing import Literal

Cause = Literal["Job", "Node", "Cluster"]
"""Whose a start failure is."""


@dataclass(frozen=True)
class StartWait:
    """The wait for one assignment's tenant. Times are `Listening.seconds`."""

    assignment: str
    """The assignment's id."""
    attempt: int
    """Last attempt that ran before; a later one that has run ends the wait."""
    since: float | None = None
    """When it was first seen that a pod could be starting; None while none could."""
    obstacle: str | None = None
    """What was last said to be in the way; it stays while nothing is said: a kubelet that retries is silent."""
    problem_since: float | None = None
    """When that was first said."""
    cause: Cause | None = None
    """Whose it was last said to be."""


def advanced(
    before: StartWait | None,
    assignment: str,
    attempt: int,
    now: float,
    *,
    idle: bool,
    obstacle: str | None,
    cause: Cause | None,
) -> StartWait:
    """The wait at `now` (`Listening.seconds`) for an assignment whose tenant does not run.

    `attempt` is the last one that ran. `idle`: no pod could be starting now, so that its silence means nothing.
    `obstacle`: what somebody says is in the way; another one has its own time. `cause`: whose, where that is said.
    """
    if before is None or before.assignment != assignment or before.attempt < attempt:
        before = StartWait(assignment, attempt)
    since = None if idle else now if before.since is None else before.since
    if obstacle is None:
        return replace(before, since=since)
    if before.obstacle != obstacle:
        return StartWait(assignment, before.attempt, since, obstacle, now, cause)
    return replace(before, since=since, cause=cause or before.cause)

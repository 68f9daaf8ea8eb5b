"""Before a node is taken for lost, the cluster is listed anew: a silent watch looks like a silent node."""

from dataclasses import dataclass, replace

from rowen.scheduler.decision import Decision, Outcome
from rowen.scheduler.monitor.lease import Reason

_LEAST_SECONDS = 5.0
"""Least time between two listings."""
_AGAIN_SECONDS = 60.0
"""Until what a listing has shown is looked at once more."""

Suspect = tuple[str, bool]
"""A node that seems to be lost, and whether its jobs are withdrawn for that."""


def suspects(decision: Decision) -> frozenset[Suspect]:
    """The nodes that are taken for lost, or would be if there were not so many of them."""
    lost = {node for outcome in decision.outcomes if (node := _lost_node(outcome)) is not None}
    return frozenset({(node, True) for node in lost} | {(node, False) for node in decision.waited_for})


def _lost_node(outcome: Outcome) -> str | None:
    lost = outcome.loss is not None and outcome.loss.reason is Reason.NODE_LOST
    return outcome.job.placement.node if lost and outcome.job.placement is not None else None


@dataclass(frozen=True, slots=True)
class Doubt:
    """What the last listing has left of the suspicion. Times are monotonic seconds."""

    confirmed: frozenset[Suspect] = frozenset()
    asked: float = float("-inf")

    def after(self, decision: Decision) -> "Doubt":
        """One pass later: a node that was heard is suspected anew if it falls silent again."""
        return replace(self, confirmed=self.confirmed & suspects(decision))

    def calls_for_listing(self, decision: Decision, now: float) -> bool:
        """Whether to list anew before the decision is written."""
        found = suspects(decision)
        least = _AGAIN_SECONDS if found <= self.confirmed else _LEAST_SECONDS
        return bool(found) and now - self.asked >= least

    def holds_back(self, outcome: Outcome) -> bool:
        """Whether the outcome takes a node for lost that no listing has shown to be."""
        node = _lost_node(outcome)
        return node is not None and (node, True) not in self.confirmed

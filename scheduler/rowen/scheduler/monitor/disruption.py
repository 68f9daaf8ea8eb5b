"""Whether silent nodes are lost, or the scheduler does not hear them.

Kubernetes' node controller stops evictions for the same reason when most nodes of a zone seem to fail at once.
"""

from collections.abc import Mapping

from rowen.scheduler.policy import Policy

_MISSED = 2.0 / 3.0
"""Part of the lease after which a node counts as silent: reports are due at different moments, losses would be too."""
_LEAST_NODES = 2


def spared(silences: Mapping[str, float], policy: Policy) -> frozenset[str]:
    """The nodes that are overdue and yet not taken for lost, since most nodes are silent at once.

    `silences`: listened seconds since each node that holds an assignment was heard.
    """
    silent = sum(silence > _MISSED * policy.lease_seconds for silence in silences.values())
    if silent < _LEAST_NODES or 2 * silent <= len(silences):
        return frozenset()
    overdue = policy.lease_seconds + policy.lease_grace_seconds
    last = overdue + policy.disruption_seconds
    return frozenset(node for node, silence in silences.items() if overdue < silence <= last)

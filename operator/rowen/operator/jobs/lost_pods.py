"""Pods that nobody is left to stop: they are deleted by force."""

from rowen.crds.names import NODE_LEASE_SECONDS
from rowen.operator.decision import Removal
from rowen.operator.jobs.snapshot import JobSnapshot
from rowen.operator.pods.view import PodView

FORCE_SECONDS = 30.0
"""How long after its deletion was due a pod of a lost node is deleted by force."""


def forced(snapshot: JobSnapshot, now: float) -> tuple[Removal, ...]:
    """Pods whose deletion is long due on a node that no longer reports, so that its lease has run out."""
    return tuple(
        Removal(pod.name, pod.uid, f"node {pod.node} is lost and its lease has run out", force=True)
        for pod in snapshot.pods
        if pod.deletion_deadline is not None
        and now > pod.deletion_deadline + FORCE_SECONDS
        and _lost(snapshot, pod, now)
    )


def _lost(snapshot: JobSnapshot, pod: PodView, now: float) -> bool:
    """Silence counts only while somebody listened."""
    if snapshot.listening is None:
        return False
    report = snapshot.reports.get(pod.node or "")
    return snapshot.listening.silence(report.heard if report else 0.0, now) > 2 * NODE_LEASE_SECONDS

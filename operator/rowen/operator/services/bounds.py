"""A service's objective as an engine is told it, which keeps to it step by step."""

from rowen.crds.base import duration_seconds
from rowen.crds.ride.terms import LatencyBound
from rowen.crds.service.online_service import LatencyTarget, Slo


def bound(target: LatencyTarget) -> LatencyBound:
    """The target, which is above 0."""
    return LatencyBound(percentile=target.percentile, seconds=duration_seconds(target.target))


def without_time(slo: Slo) -> str:
    """The target that no step keeps, of a service that was stored before the API server refused such; empty if none."""
    targets = {"slo.ttft.target": slo.ttft.target, "slo.tpot.target": slo.tpot.target}
    return next((name for name, target in targets.items() if duration_seconds(target) <= 0), "")

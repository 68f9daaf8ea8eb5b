"""A service's objective as an engine is told it, which keeps to it step by step."""

from rowen.crds.base import duration_seconds
from rowen.crds.ride.terms import LatencyBound
from rowen.crds.service.online_service import LatencyTarget


def bound(target: LatencyTarget) -> LatencyBound:
    """The target, which is above 0."""
    return LatencyBound(percentile=target.percentile, seconds=duration_seconds(target.target))

"""On which terms an engine computes beside offline work.

The operator hands them over in `ROWEN_RIDE_TERMS` where jobs ride in the engine, and in `ROWEN_SPATIAL_TERMS` where
they run beside its requests.
"""

from typing import Annotated

from pydantic import Field

from rowen.crds.base import ReadModel


class LatencyBound(ReadModel):
    """A percentile of a latency that has to stay below a bound."""

    percentile: Annotated[float, Field(gt=0, lt=100)]
    """Percentile that is compared."""
    seconds: Annotated[float, Field(gt=0)]
    """Upper bound."""


class _Terms(ReadModel):
    """What the service's requests may take."""

    ttft: LatencyBound
    """Time to first token."""
    tpot: LatencyBound
    """Time per output token."""


class SpatialTerms(_Terms):
    """Of an engine that shares its device with other processes."""


class RideTerms(_Terms):
    """Of an engine that takes riders in."""

    memory_bytes: Annotated[int, Field(gt=0)]
    """Memory of the engine that riders may have, together."""
    defer_prefills: bool = False
    """Prompts wait, as long as `ttft` allows, so that several are computed in one step."""

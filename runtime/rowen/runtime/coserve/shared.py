"""What all of an engine's process share: its terms, and the one planner of windows, parts and batch rows.

So each of these is planned with what all of them showed.
"""

import functools
import json
import os
from typing import TypeVar

from pydantic import ValidationError

from rowen.crds.base import ReadModel
from rowen.crds.names import RIDE_TERMS_ENV, SPATIAL_TERMS_ENV
from rowen.crds.ride.terms import RideTerms, SpatialTerms
from rowen.runtime.coserve.planning.planner import Planner
from rowen.runtime.coserve.planning.predictor import Predictor
from rowen.runtime.log import get_logger

_Terms = TypeVar("_Terms", bound=ReadModel)


@functools.cache
def engine_terms() -> RideTerms | None:
    """The terms on which the engine takes riders in; None: it takes none, or the terms make no sense (one log line)."""
    return _terms(RIDE_TERMS_ENV, RideTerms, "nothing rides")


@functools.cache
def spatial_terms() -> SpatialTerms | None:
    """Those on which it shares its device while it serves; None as above."""
    return _terms(SPATIAL_TERMS_ENV, SpatialTerms, "nothing runs beside the engine's requests")


@functools.cache
def engine_planner() -> Planner | None:
    """Plans what rides in this process's engine; None: nothing does."""
    terms = engine_terms()
    return Planner(terms, Predictor()) if terms else None


def _terms(name: str, kind: type[_Terms], otherwise: str) -> _Terms | None:
    text = os.environ.get(name)
    if not text:
        return None
    try:
        return kind.from_wire(json.loads(text))
    except (ValueError, ValidationError) as error:
        get_logger().error(f"{name} makes no sense: {otherwise}", error=str(error))
        return None

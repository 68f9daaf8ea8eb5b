"""The one planner of an engine's process: windows, parts and batch rows are planned with what all of them showed."""

import functools
import json
import os

from pydantic import ValidationError

from rowen.crds.names import RIDE_TERMS_ENV
from rowen.crds.ride.terms import RideTerms
from rowen.runtime.coserve.planning.planner import Planner
from rowen.runtime.coserve.planning.predictor import Predictor
from rowen.runtime.log import get_logger


@functools.cache
def engine_terms() -> RideTerms | None:
    """The terms on which the engine takes riders in; None: it takes none, or the terms make no sense (one log line)."""
    text = os.environ.get(RIDE_TERMS_ENV)
    if not text:
        return None
    try:
        return RideTerms.from_wire(json.loads(text))
    except (ValueError, ValidationError) as error:
        get_logger().error(f"{RIDE_TERMS_ENV} makes no sense: nothing rides", error=str(error))
        return None


@functools.cache
def engine_planner() -> Planner | None:
    """Plans what rides in this process's engine; None: nothing does."""
    terms = engine_terms()
    return Planner(terms, Predictor()) if terms else None

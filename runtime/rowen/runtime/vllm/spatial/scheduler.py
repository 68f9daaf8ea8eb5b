"""An engine's scheduler that says in each step which share of the device offline work may have.

Of vLLM's scheduler no more is used than three methods, whatever arguments they have, and what their output says of the
step.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from rowen.crds.ride.terms import SpatialTerms
from rowen.runtime.coserve.planning.predictor import Predictor
from rowen.runtime.coserve.planning.spatial import SharePlanner
from rowen.runtime.log import get_logger
from rowen.runtime.native import online
from rowen.runtime.vllm.riding.composition import load_of, stepping
from rowen.runtime.vllm.spatial.steps import SharedSteps

log = get_logger()

_METHODS = ("has_unfinished_requests", "schedule", "update_from_output")


def sharing(scheduler: type, terms: SpatialTerms) -> type:
    """That class of schedulers; each says shares on these terms.

    To be wrapped by `reporting`, not the other way round. Raises `TypeError` where it is not made as vLLM's are.
    """
    missing = [name for name in _METHODS if not callable(getattr(scheduler, name, None))]
    if missing:
        raise TypeError(f"{scheduler.__module__}.{scheduler.__qualname__} has no {', '.join(missing)}")
    made = staticmethod(partial(_steps, terms))
    return type(f"Sharing{scheduler.__name__}", (Shares, scheduler), {"rowen_steps": made})


def _steps(terms: SpatialTerms) -> SharedSteps | None:
    device = online()
    return None if device is None else SharedSteps(device, SharePlanner(terms, Predictor()))


class Shares:
    """Whatever goes wrong in it ends the sharing alone: the engine serves on, and is harvested while it is idle.

    Private names have two underscores: they must be none that a scheduler has.
    """

    rowen_steps: Callable[[], SharedSteps | None]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.__steps = self.rowen_steps()

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """A step begins, where it computes anything; one that does not changes nothing of the share."""
        begun = time.monotonic()
        output = self.__own.schedule(*args, **kwargs)
        self.__attempt(lambda steps: _begin(steps, output, begun))
        return output

    def update_from_output(self, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        """A step has ended."""
        outputs = self.__own.update_from_output(scheduler_output, *args, **kwargs)
        self.__attempt(
            lambda steps: steps.end(id(scheduler_output), time.monotonic(), self.__own.has_unfinished_requests())
        )
        return outputs

    @property
    def __own(self) -> Any:
        """The scheduler as it is without this class."""
        return super()

    def __attempt(self, what: Callable[[SharedSteps], None]) -> None:
        """Until it fails once."""
        steps = self.__steps
        if steps is None:
            return
        try:
            what(steps)
        except Exception as error:
            self.__steps = None
            told = f"{type(error).__name__}: {error}"
            log.error("offline work has no share beside requests any more: the engine serves", error=told)
            with suppress(Exception):
                steps.close()


def _begin(steps: SharedSteps, output: Any, begun: float) -> None:
    # To schedule may have waited for memory.
    steps.follow(output.finished_req_ids, stepping(output), time.monotonic())
    if output.total_num_scheduled_tokens > 0:
        steps.begin(id(output), load_of(output), begun)

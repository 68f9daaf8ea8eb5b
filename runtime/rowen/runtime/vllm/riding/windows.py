"""Windows on their way through an engine's steps."""

from dataclasses import replace

from rowen.runtime.coserve.learner import Learner, Window
from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.planner import LITTLE_TOKENS, Planner
from rowen.runtime.vllm.riding.hooks import Hooks

_MOST_MISSES = 8
"""Windows in a row that did not get through a step that succeeded."""


class Windows:
    """One at a time: armed before a step, settled after it."""

    def __init__(self, hooks: Hooks, planner: Planner) -> None:
        self._hooks = hooks
        self._planner = planner
        self._misses = 0

    def arm(self, learner: Learner, load: Load, rider: int | None, most_tokens: int) -> Load:
        """Has the next window ride, of so many tokens at most: with it in the load. Without, where none can."""
        window = learner.window(most_tokens)
        if window is None:
            return load
        ridden = _with(load, rider, window)
        if most_tokens > LITTLE_TOKENS:
            fitting = self._planner.fitting(ridden)
            if fitting < ridden.ride_tokens:
                tokens = window.tokens * fitting // ridden.ride_tokens
                window.abandon()
                window = learner.window(tokens) if tokens > 0 else None
                if window is None:
                    return load
                ridden = _with(load, rider, window)
        self._hooks.arm(window)
        return ridden

    def settle(self) -> int | None:
        """Tokens that rode. None: a window did not get through, and the step's time says nothing."""
        ride = self._hooks.disarm()
        if ride is None:
            return 0
        if ride.error is not None:
            raise ride.error
        if ride.is_through:
            self._misses = 0
            ride.window.finish()
            return ride.window.tokens
        ride.window.abandon()
        self._misses += 1
        if self._misses == _MOST_MISSES:
            raise RuntimeError("the engine's steps do not pass its linear layers as they should")
        return None

    def give_up(self) -> None:
        """The step was not computed."""
        ride = self._hooks.disarm()
        if ride is not None:
            ride.window.abandon()

    def end(self) -> None:
        """None rides any more."""
        self._hooks.remove()


def _with(load: Load, rider: int | None, window: Window) -> Load:
    return replace(load, ride_tokens=window.whole_tokens, ride_context=window.context, rider=rider)

"""How many tokens of batch rows a step may hold."""

from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.planner import LITTLE_TOKENS, PATIENCE_STEPS, Planner
from rowen.runtime.coserve.planning.search import most_tokens

_SHARE = 0.5
"""Of the time that is left in a step, for rows while windows or parts wait too."""
_MOST_TOKENS = 1024


class Pacing:
    """Decides with the planner's predictor, bounds and feedback. Not for several threads."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._dry = 0

    def tokens(self, load: Load) -> int:
        """Most tokens of batch rows, decode and prefill alike; `load` is what of the step is online.

        Without anything online at least 1.
        """
        planner, predictor = self._planner, self._planner.predictor
        seconds = predictor.with_rows(load)
        bound = planner.bound(load)
        if planner.riders_wait:
            alone = seconds(0)
            bound = alone + (bound - alone) * _SHARE
        found = most_tokens(seconds, bound, min(_MOST_TOKENS, predictor.most_more_tokens(load)))
        if found:
            self._dry = 0
            return found
        if not load.has_requests:
            return 1
        self._dry += 1
        if self._dry < PATIENCE_STEPS or not planner.kept:
            return 0
        self._dry = 0
        return LITTLE_TOKENS

"""Which share of its device an engine leaves to offline work beside its requests (Harli, sections 5 and 6); pure.

A step's time is predicted in Harli's two stages: what it takes alone (Eq. 2, `Predictor`), times how much longer it
takes beside offline work on its share (Eq. 3, `Slowdowns`). Shares are offline work's, in tenths of the device. The
engine has none: it is never limited, and has whatever offline work does not use.
"""

from collections import Counter

from rowen.crds.ride.terms import SpatialTerms
from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.predictor import Predictor
from rowen.runtime.coserve.planning.slowdown import Slowdowns
from rowen.runtime.coserve.planning.token_pace import TokenPace

_RESERVE = 0.05
"""Of the bound, that a larger share has to leave free: each change is a stop and an opening (some 0.3 ms), and small
errors of the prediction are not to cause any."""
_FIRST = 4
"""Steps of each kind of load that are alone, so that it is known what they take."""
_FAR = 1.5
"""Times what was predicted: so long a step says that it is not known what such steps take alone."""
_PATIENCE = 512
"""Decoding steps after which shares that were found too large may be tried again."""
_MOST_RANGES = 4096
_LEAST_SECONDS = 1e-6


class SharePlanner:
    """Decides step by step. Not for several threads.

    The largest share with which a decoding step's predicted time is within what running requests have left of the
    TPOT's bound (`TokenPace`): there it is closest below the bound (Harli, section 6). One that fits stays until a
    larger one fits with some reserve. Beside offline work a share is a tenth above the largest one whose effect was
    measured, at most.

    A step with tokens of a prompt has no share: offline work stands still for all of it, and prompts are computed as
    fast as without. As the next request closes the gate at once, the step that it meets ends without offline work, too.
    So the TTFT is kept by giving everything back.
    """

    def __init__(self, terms: SpatialTerms, predictor: Predictor) -> None:
        self._predictor = predictor
        self._slowdowns = Slowdowns()
        self.token_pace = TokenPace(terms.tpot)
        self.offline_seconds = 0.0
        """That requests have waited for tokens for offline work's sake, so far."""
        self._alone: Counter[tuple[int, int]] = Counter()
        """Steps by their kind, since it was doubted."""
        self._ranges: dict[tuple[int, int, int, int, int], tuple[int, int]] = {}
        self._far = 0
        """Steps beside offline work, the last that were measured, that took far longer than was thought."""
        self._share = 0
        self._most_share = 0
        self._decided = 0

    def share(self, load: Load, occupied: bool) -> int:
        """Tenths, 0 to 9, that offline work may have in the next step; `occupied`: there is some.

        Where there is none the share says how open the device would be.
        """
        if load.prefill_tokens or self._alone[_kind(load)] < _FIRST:
            return 0
        roomy, fitting = self._range(load)
        # With `min` and `max` a decision that was made before would take twice as long (DESIGN, section 6: 1 us).
        share = self._share
        if share < roomy:
            share = roomy
        elif share > fitting:
            share = fitting
        if occupied and share > self._slowdowns.largest:
            share = self._slowdowns.largest + 1
        self._share = share
        if share > self._most_share:
            self._most_share = share
        self._decided += 1
        if self._decided >= _PATIENCE:
            self._doubt()
        return share

    def observe_alone(self, load: Load, seconds: float) -> None:
        """A step was measured that nothing ran beside."""
        if load.decode_rows and not load.prefill_tokens:
            self._alone[_kind(load)] += 1
        self._predictor.observe(load, seconds)

    def observe_beside(self, load: Load, seconds: float, tenths: int) -> None:
        """A step was measured, all of it beside offline work that might use so many tenths, 1 to 9."""
        if seconds < _LEAST_SECONDS:
            return
        factor, kind = seconds / self._seconds(load), _kind(load)
        self._far = self._far + 1 if factor > _FAR * self._slowdowns.factors[tenths] else 0
        if self._far == 1 and self._alone[kind] > _FIRST:
            # Most likely such steps take another time alone by now. If not, the next ones say so, whatever their kinds.
            self._alone[kind] = 0
            return
        self._slowdowns.observe(tenths, factor)

    def observe_gap(self, load: Load, seconds: float, beside: bool) -> None:
        """What requests waited from one token to the next, and whether offline work ran in it; `load` is the step's.

        What the gap is longer than the step was predicted to be alone is then offline work's doing.
        """
        if beside:
            self.offline_seconds += max(0.0, seconds - self._seconds(load))

    def observe_tpot(self, seconds: float, offline_seconds: float) -> None:
        """What a request that has ended waited for each token, and how much of it was offline work's doing."""
        if self.token_pace.observe(seconds, offline_seconds):
            self._ranges.clear()

    def _range(self, load: Load) -> tuple[int, int]:
        """The largest share that fits with the reserve, and the largest that fits."""
        parts = self.token_pace.parts
        key = load.decode_rows, load.decode_context >> 9, parts, self._predictor.version, self._slowdowns.version
        found = self._ranges.get(key)
        if found is None:
            if len(self._ranges) >= _MOST_RANGES:
                self._ranges.clear()
            factor = self.token_pace.step_seconds / self._seconds(load)
            found = self._slowdowns.most(factor * (1 - _RESERVE)), self._slowdowns.most(factor)
            self._ranges[key] = found
        return found

    def _doubt(self) -> None:
        """A share that does not fit is not measured any more: after a while what is known of it is doubted."""
        if self.token_pace.kept:
            self._slowdowns.forget_above(self._most_share)
        self._decided, self._most_share = 0, 0

    def _seconds(self, load: Load) -> float:
        """What a step takes alone."""
        return max(_LEAST_SECONDS, self._predictor.seconds(load))


def _kind(load: Load) -> tuple[int, int]:
    """Of decoding steps that take about the same: by their requests, and what these attend to (as the predictor's)."""
    return load.decode_rows, (load.decode_context >> 9).bit_length()

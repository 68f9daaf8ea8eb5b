"""Which share of a device an engine gets beside a tuner that runs at the same time (Harli, sections 5 and 6); pure.

Shares are tenths. A step's time is predicted in two stages: alone on the engine's share (Eq. 2, a model for each
share), and then times how much the tuner on its share slows it (Eq. 3, one model for all of them).
"""

from dataclasses import dataclass

from rowen.runtime.coserve.load import Load
from rowen.runtime.coserve.planning.least_squares import LeastSquares

WHOLE = 10
"""Shares of a device."""
LEAST = 1
"""That each of two who run at the same time has."""
_SOLO_PRIOR = (0.02, 0.0005, 1e-6, 0.0005, 1e-6)
"""Seconds of a step on the whole device, of a decode row and what it attends to, of a prompt's token and its."""
_SLOWDOWN_PRIOR = (0.1, 0.02)
"""Of each tenth that the engine has, and that the tuner has."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Tenths of the device. Both together are `WHOLE` at most."""

    engine: int
    tuner: int
    """0: it waits, or there is none."""
    reason: str
    """For people."""


class SharePredictor:
    """Learns what steps take on each share. Not for several threads."""

    def __init__(self) -> None:
        # A share that nothing was measured on is taken for as much slower as it is smaller.
        self._solo = [
            LeastSquares([value * WHOLE / share for value in _SOLO_PRIOR]) for share in range(LEAST, WHOLE + 1)
        ]
        self._slowdown = LeastSquares(_SLOWDOWN_PRIOR)

    def seconds(self, load: Load, engine: int, tuner: int) -> float:
        """What a step takes on so many tenths, beside a tuner on so many (0: beside none)."""
        alone = self._solo[engine - LEAST].value(_features(load))
        if tuner == 0:
            return alone
        # Beside another one nothing becomes faster.
        return alone * max(1.0, self._slowdown.value((float(engine), float(tuner))))

    def observe(self, load: Load, engine: int, tuner: int, seconds: float) -> None:
        """A step was measured, in seconds above 0."""
        solo = self._solo[engine - LEAST]
        if tuner == 0:
            solo.observe(_features(load), seconds)
        else:
            alone = solo.value(_features(load))
            self._slowdown.observe((float(engine), float(tuner)), max(1.0, seconds / alone))


def shares(predictor: SharePredictor, load: Load, bound_seconds: float, *, tuner_waits: bool) -> Shares:
    """The shares with which the step's predicted time comes closest below its bound.

    There the engine takes least of the memory's bandwidth from the tuner (section 5.2.3). What the engine does not
    need is the tuner's, all of it.

    Args:
        predictor: What steps take.
        load: The next step.
        bound_seconds: What the step may take.
        tuner_waits: The tuner has nothing to compute now: for data, or for weights on their way.
    """
    if tuner_waits:
        return Shares(WHOLE, 0, "fine-tuning waits: the engine has everything")
    if load.decode_rows + load.prefill_tokens == 0:
        return Shares(LEAST, WHOLE - LEAST, "no request is there")
    predicted = {share: predictor.seconds(load, share, WHOLE - share) for share in range(LEAST, WHOLE)}
    fitting = [share for share, seconds in predicted.items() if seconds <= bound_seconds]
    if not fitting:
        return Shares(WHOLE, 0, "the engine needs everything to be in time")
    share = max(fitting, key=lambda each: predicted[each])
    return Shares(share, WHOLE - share, f"{share} tenths are enough for the engine to be in time")


def _features(load: Load) -> tuple[float, ...]:
    return (
        1.0,
        float(load.decode_rows),
        float(load.decode_context),
        float(load.prefill_tokens),
        float(load.prefill_context),
    )

"""How late the replayer of the traffic itself was: what it says of the machine."""

from collections.abc import Sequence
from dataclasses import dataclass

from rowen.demo.traffic.replay import Outcome
from rowen.demo.verdict.statistics import percentile

_BUSY_MS = 100.0
"""A process that sends a few requests a second, off the devices' cores, is so late only where there is no time."""


@dataclass(frozen=True)
class Lateness:
    """Of the replay's requests, milliseconds; NaN where there were none."""

    sent_ms_p50: float
    """How much later than due they were sent."""
    sent_ms_p99: float
    loop_ms_p99: float
    """The longest that the replayer's event loop was late while a request was in flight."""

    @property
    def busy(self) -> bool:
        """Whether the machine was too busy to measure on."""
        return self.sent_ms_p99 > _BUSY_MS

    def told(self) -> str:
        """The figures, in a sentence."""
        return (
            f"the replayer sent its requests {self.sent_ms_p50:.1f} ms (p50) and {self.sent_ms_p99:.1f} ms (p99) late, "
            f"and while 99 of 100 were in flight its own loop was late by {self.loop_ms_p99:.1f} ms at most"
        )


def lateness(outcomes: Sequence[Outcome]) -> Lateness:
    """Of all requests, answered or not."""
    sent = [max(0.0, outcome.lateness) * 1000 for outcome in outcomes]
    loop = [outcome.lag * 1000 for outcome in outcomes]
    return Lateness(percentile(sent, 50), percentile(sent, 99), percentile(loop, 99))

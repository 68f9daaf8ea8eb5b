"""Since when the operator could have heard a node, on its own clock: what nobody listened to is no silence."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Listening:
    """The time without a gap in which a report would have been heard, Unix seconds."""

    since: float
    until: float
    """Last sign of the API server."""

    def silence(self, heard: float, now: float) -> float:
        """Seconds of it since a node was heard."""
        return max(0.0, min(self.until, now) - max(self.since, heard))


def extended(before: Listening, now: float, most_gap_seconds: float) -> Listening:
    """With a sign at `now`. After a longer gap, or by a clock that was put back, it begins anew."""
    if not 0 <= now - before.until <= most_gap_seconds:
        return Listening(now, now)
    return Listening(before.since, now)

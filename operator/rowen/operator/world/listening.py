"""When the operator could have heard of a change, on its own clock: what nobody listened to is no silence."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Listening:
    """The time without a gap in which a change would have been heard, Unix seconds."""

    since: float
    until: float
    """Last sign of the API server."""
    before_seconds: float = 0.0
    """Seconds that were listened to earlier, before a gap."""

    @property
    def seconds(self) -> float:
        """All the time that was listened to: a clock that stands still while nobody listens, and never goes back."""
        return self.before_seconds + self.until - self.since

    def silence(self, heard: float, now: float) -> float:
        """Seconds of it since a node was heard."""
        return max(0.0, min(self.until, now) - max(self.since, heard))


def extended(before: Listening, now: float, most_gap_seconds: float) -> Listening:
    """With a sign at `now`. After a longer gap, or by a clock that was put back, it begins anew."""
    if not 0 <= now - before.until <= most_gap_seconds:
        return Listening(now, now, before.seconds)
    return replace(before, until=now)

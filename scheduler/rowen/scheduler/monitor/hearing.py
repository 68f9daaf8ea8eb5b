"""What has been heard of the nodes, on the scheduler's own clock.

A node is heard when its heartbeat changes, whatever time it carries: nodes' clocks differ. Its silence counts only
while the scheduler could have heard it: what nobody listened to is no silence. Its report is as old as its last change.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

BLIND_SECONDS = 5.0
"""Longest time without a sign of the API server, stalls apart, that still counts as listening."""
STALL_SECONDS = 1.0
"""Least time of computing that counts as a stall."""
_MOST_STALLS = 100

Stall = tuple[float, float]
"""Begin and end, Unix seconds."""


@dataclass(frozen=True, slots=True)
class Word:
    """A node's last heartbeat. Times are Unix seconds."""

    stamp: float
    """The heartbeat's own time; only whether it changes matters."""
    heard: float
    """When it changed."""
    steady: float
    """Since when heartbeats have followed one another, without a silence and without a node's clock that was set."""


@dataclass(frozen=True, slots=True)
class Telling:
    """A node's last report. Times are Unix seconds."""

    stamp: float
    """The report's own time; only whether it changes matters."""
    told: float
    """When it changed."""


@dataclass(frozen=True, slots=True)
class Listening:
    """The time without a gap in which every heartbeat would have been heard, Unix seconds; by default all of it."""

    since: float = float("-inf")
    until: float = float("inf")
    """When it was last certain that a heartbeat would be heard."""
    stalls: tuple[Stall, ...] = ()
    """When the scheduler computed and heard nothing, oldest first."""

    def silence(self, heard: float, now: float) -> float:
        """Seconds of it since a node was heard, stalls apart."""
        begin, end = max(self.since, heard), min(self.until, now)
        return max(0.0, end - begin - self.stalled(begin, end))

    def stalled(self, begin: float, end: float) -> float:
        """Seconds of stalls between two times."""
        return sum(max(0.0, min(stall[1], end) - max(stall[0], begin)) for stall in self.stalls)


@dataclass(frozen=True, slots=True)
class Hearing:
    """The nodes' last heartbeats and reports, by node, and since when the scheduler listens."""

    words: Mapping[str, Word] = field(default_factory=dict)
    tellings: Mapping[str, Telling] = field(default_factory=dict)
    listening: Listening = field(default_factory=lambda: Listening(0.0, 0.0))


def stalled(hearing: Hearing, begin: float, end: float) -> Hearing:
    """The hearing after the scheduler has computed from `begin` to `end`, Unix seconds, and heard nothing.

    A stall only stops the clock of silence. The oldest of many is forgotten and counts as listened to.
    """
    if end - begin < STALL_SECONDS:
        return hearing
    listening = hearing.listening
    stalls = (*listening.stalls, (begin, end))[-_MOST_STALLS:]
    return replace(hearing, listening=replace(listening, stalls=stalls))


def advanced(
    hearing: Hearing,
    beats: Mapping[str, float],
    reports: Mapping[str, float],
    contact: float,
    now: float,
    lease_seconds: float,
) -> Hearing:
    """The hearing at `now`, with the heartbeats and reports that are known by then.

    `beats` and `reports` are their own times, by node; `contact` is when the API server gave the last sign. Unix
    seconds. Heartbeats follow one another that are no more than `lease_seconds` apart. A node without any is one of the
    release before, whose reports are its heartbeats.
    """
    words = {
        node: _word(hearing.words.get(node), stamp, now, lease_seconds) for node, stamp in {**reports, **beats}.items()
    }
    tellings = {node: _telling(hearing.tellings.get(node), stamp, now) for node, stamp in reports.items()}
    return Hearing(words, tellings, _listened(hearing.listening, contact, now))


def _telling(before: Telling | None, stamp: float, now: float) -> Telling:
    """As old as it says where it is seen first."""
    if before is None:
        return Telling(stamp, min(now, stamp))
    return Telling(stamp, now if before.stamp != stamp else min(now, before.told))


def _word(before: Word | None, stamp: float, now: float, lease_seconds: float) -> Word:
    """One that is seen first may be old, so its own time counts: it is at most too cautious a guess."""
    if before is None:
        heard = min(now, stamp)
        return Word(stamp, heard, heard)
    if before.stamp != stamp:
        follows = 0.0 <= now - before.heard <= lease_seconds and 0.0 < stamp - before.stamp <= lease_seconds
        return Word(stamp, now, before.steady if follows else now)
    # The scheduler's own clock may have been put back.
    return replace(before, heard=min(now, before.heard), steady=min(now, before.steady))


def _listened(before: Listening, contact: float, now: float) -> Listening:
    """A gap, or a clock that was put back, is the end of what could be heard: listening begins anew."""
    gap = contact - before.until - before.stalled(before.until, contact)
    if now < before.until or gap > BLIND_SECONDS:
        return Listening(contact, contact)
    return replace(before, until=max(before.until, contact))

"""What has been heard of the nodes, on the scheduler's own clock.

A node is heard when its report changes, whatever time the report carries: nodes' clocks differ. Its silence counts only
while the scheduler could have heard it: what nobody listened to is no silence.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

BLIND_SECONDS = 5.0
"""Longest time without a sign of the API server that still counts as listening."""


@dataclass(frozen=True, slots=True)
class Word:
    """A node's last report. Times are Unix seconds."""

    stamp: float
    """The report's own time; only whether it changes matters."""
    heard: float
    """When it changed."""


@dataclass(frozen=True, slots=True)
class Listening:
    """The time without a gap in which every report would have been heard, Unix seconds; by default all of it."""

    since: float = float("-inf")
    until: float = float("inf")
    """When it was last certain that a report would be heard."""

    def silence(self, heard: float, now: float) -> float:
        """Seconds of it since a node was heard."""
        return max(0.0, min(self.until, now) - max(self.since, heard))


@dataclass(frozen=True, slots=True)
class Hearing:
    """The nodes' last words, by node, and since when the scheduler listens."""

    words: Mapping[str, Word] = field(default_factory=dict)
    listening: Listening = field(default_factory=lambda: Listening(0.0, 0.0))


def advanced(hearing: Hearing, stamps: Mapping[str, float], contact: float, now: float) -> Hearing:
    """The hearing at `now`, with the reports that are known by then.

    `stamps` are the reports' own times, by node; `contact` is when the API server gave the last sign. Unix seconds.
    """
    words = {node: _word(hearing.words.get(node), stamp, now) for node, stamp in stamps.items()}
    return Hearing(words, _listened(hearing.listening, contact, now))


def _word(before: Word | None, stamp: float, now: float) -> Word:
    """One that is seen first may be old, so its own time counts: it is at most too cautious a guess."""
    if before is None:
        return Word(stamp, min(now, stamp))
    if before.stamp != stamp:
        return Word(stamp, now)
    # The scheduler's own clock may have been put back.
    return replace(before, heard=min(now, before.heard))


def _listened(before: Listening, contact: float, now: float) -> Listening:
    """A gap, or a clock that was put back, is the end of what could be heard: listening begins anew."""
    if now < before.until or contact - before.until > BLIND_SECONDS:
        return Listening(contact, contact)
    return replace(before, until=max(before.until, contact))

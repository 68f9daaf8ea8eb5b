"""What has been heard of the nodes, on the scheduler's own clock.

A node is heard when its heartbeat changes, or its report, whatever time they carry: nodes' clocks differ. Its silence
counts only while the scheduler could have heard it: what nobody listened to is no silence. Its report is as old as its
last change.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rowen.crds.names import LATE_SECONDS

BLIND_SECONDS = 5.0
"""Longest time without a sign of the API server, stalls apart, that still counts as listening."""
STALL_SECONDS = 1.0
"""Least time of computing that counts as a stall."""
_MOST_STALLS = 100
KEPT_SECONDS = 60.0
"""How long a node is remembered that has neither a heartbeat nor a report: they may have been deleted by hand."""

Stall = tuple[float, float]
"""Begin and end, Unix seconds."""


@dataclass(frozen=True, slots=True)
class Word:
    """A node's last sign of life. Times are Unix seconds."""

    stamp: float
    """The heartbeat's own time, the report's where there is no heartbeat; only whether it changes matters."""
    heard: float
    """When one of them changed."""
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
    seconds. Heartbeats follow one another that are no more than `lease_seconds` apart. An agent of the release before
    sends none, and may have been put in the place of one that did: its reports are signs of life all the same.
    """
    before = hearing.words
    words = {node: word for node, word in before.items() if now - word.heard <= KEPT_SECONDS}
    for node in beats.keys() | reports.keys():
        told = hearing.tellings.get(node)
        words[node] = _word(before.get(node), told, beats.get(node), reports.get(node), now, lease_seconds)
    tellings = {node: _telling(hearing.tellings.get(node), stamp, now) for node, stamp in reports.items()}
    return Hearing(words, tellings, _listened(hearing.listening, contact, now))


def untold(hearing: Hearing, now: float, lease_seconds: float) -> list[str]:
    """The nodes that live on and whose reports do not arrive.

    A node whose reports are not accepted sends no heartbeat either, once its last one is so old: it is among them for
    no longer than its lease.
    """
    return [
        node
        for node, word in hearing.words.items()
        if now - word.heard <= lease_seconds and now - _told(hearing, node) > LATE_SECONDS
    ]


def _told(hearing: Hearing, node: str) -> float:
    """When the node's last report came; where none has, since when it was there to report."""
    telling = hearing.tellings.get(node)
    return hearing.words[node].steady if telling is None else telling.told


def _telling(before: Telling | None, stamp: float, now: float) -> Telling:
    """As old as it says where it is seen first."""
    if before is None:
        return Telling(stamp, min(now, stamp))
    return Telling(stamp, now if before.stamp != stamp else min(now, before.told))


def _word(
    before: Word | None, told: Telling | None, beat: float | None, report: float | None, now: float, lease: float
) -> Word:
    """One that is seen first may be old, so its own time counts: it is at most too cautious a guess."""
    stamps = [stamp for stamp in (beat, report) if stamp is not None]
    if before is None:
        heard = min(now, max(stamps))
        return Word(stamps[0], heard, heard)
    fresh = report is not None and (told is None or told.stamp != report)
    if beat is not None and beat != before.stamp:
        follows = 0.0 < beat - before.stamp <= lease
    elif fresh and beat is None:
        follows = 0.0 < stamps[0] - before.stamp <= lease
    elif fresh:
        # Reports are seldom; it is the next heartbeat that tells of a clock that was set ahead.
        follows = told is None or stamps[1] > told.stamp
    else:
        # A heartbeat that was deleted is none, and the scheduler's own clock may have been put back.
        return Word(stamps[0], min(now, before.heard), min(now, before.steady))
    return Word(stamps[0], now, before.steady if follows and 0.0 <= now - before.heard <= lease else now)


def _listened(before: Listening, contact: float, now: float) -> Listening:
    """A gap, or a clock that was put back, is the end of what could be heard: listening begins anew."""
    gap = contact - before.until - before.stalled(before.until, contact)
    if now < before.until or gap > BLIND_SECONDS:
        return Listening(contact, contact)
    return replace(before, until=max(before.until, contact))

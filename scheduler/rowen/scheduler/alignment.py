"""Busy time of devices: union, overlap and the pairwise alignment score."""

from collections.abc import Iterable

Span = tuple[float, float]
"""Start and end, in seconds of Unix time."""


def merge(spans: Iterable[Span], start: float, end: float) -> tuple[Span, ...]:
    """The spans clipped to [start, end], sorted, with overlapping ones joined."""
    merged: list[Span] = []
    for begin, finish in sorted((max(a, start), min(b, end)) for a, b in spans):
        if finish <= begin:
            continue
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], finish))
        else:
            merged.append((begin, finish))
    return tuple(merged)


def length(spans: Iterable[Span]) -> float:
    """Seconds covered by disjoint spans."""
    return sum(end - begin for begin, end in spans)


def union(groups: Iterable[Iterable[Span]]) -> tuple[Span, ...]:
    """Time in which at least one of the groups is busy."""
    return merge((span for group in groups for span in group), float("-inf"), float("inf"))


def alignment(first: tuple[Span, ...], second: tuple[Span, ...]) -> float:
    """A = overlapping busy time / union of busy time, in [0, 1]; 1 when both are never busy."""
    joined = length(union((first, second)))
    if joined <= 0.0:
        return 1.0
    overlap = length(first) + length(second) - joined
    return min(1.0, max(0.0, overlap / joined))

"""Who held a device when, from the agent's transitions and the requests in flight."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from rowen.demo.verdict.statistics import Span, clip, union

Holder = Literal["online", "offline", "none"]


@dataclass(frozen=True)
class Transition:
    """One close of a device's gate and its reopening; Unix times in seconds."""

    closed: float
    acknowledged: float | None
    """When the last offline thread had stopped; None while pending."""
    opened: float | None
    """When offline work could go on; None while closed."""
    latency: float | None
    """Seconds from close to acknowledgement."""
    tenants: int
    """Offline processes that were stopped."""

    @classmethod
    def from_wire(cls, value: dict[str, Any]) -> "Transition":
        """Parses the agent's answer."""
        return cls(
            closed=value["closed"],
            acknowledged=value.get("acknowledged"),
            opened=value.get("opened"),
            latency=value.get("latency_seconds"),
            tenants=value["tenants"],
        )


@dataclass(frozen=True)
class ServedRequest:
    """A finished request as the engine's plugin saw it."""

    end: float
    """Unix time, seconds."""
    ttft: float
    tpot: float
    preemptions: int
    """Preemptions of offline work that it met."""
    tenant_present: bool

    @classmethod
    def from_wire(cls, value: dict[str, Any]) -> "ServedRequest":
        """Parses the agent's answer."""
        return cls(
            end=value["end"],
            ttft=value.get("ttft_seconds") or 0.0,
            tpot=value.get("tpot_seconds") or 0.0,
            preemptions=value["preemptions"],
            tenant_present=value["tenant_present"],
        )


def open_spans(transitions: Iterable[Transition], start: float, end: float) -> list[Span]:
    """When the gate was open between `start` and `end`; never, as far as is known, where nothing was recorded."""
    ordered = sorted(transitions, key=lambda transition: transition.closed)
    if not ordered:
        return []
    edges = [start, *(edge for transition in ordered for edge in (transition.closed, transition.opened))]
    spans = [
        (opened, closed) for opened, closed in zip(edges[::2], [*edges[1::2], end], strict=True) if opened is not None
    ]
    return union(clip(((left, right or end) for left, right in spans), start, end))


def offline_spans(transitions: Iterable[Transition], present: Iterable[Span], start: float, end: float) -> list[Span]:
    """When the gate was open with offline processes behind it; `present` says when there were any."""
    attached = union(present)
    return union(piece for left, right in open_spans(transitions, start, end) for piece in clip(attached, left, right))


def holder_spans(
    online: Iterable[Span], offline: Iterable[Span], start: float, end: float
) -> list[tuple[Span, Holder]]:
    """Who held the device from `start` to `end`, without gaps. Where both seem to, the online side does."""
    online_spans = union(clip(online, start, end))
    offline_only = union(clip(offline, start, end))
    edges = sorted({start, end, *(edge for span in (*online_spans, *offline_only) for edge in span)})
    held: list[tuple[Span, Holder]] = []
    for left, right in itertools.pairwise(edges):
        middle = (left + right) / 2
        holder: Holder = "none"
        if _covers(online_spans, middle):
            holder = "online"
        elif _covers(offline_only, middle):
            holder = "offline"
        if held and held[-1][1] == holder:
            held[-1] = ((held[-1][0][0], right), holder)
        else:
            held.append(((left, right), holder))
    return held


def _covers(spans: Iterable[Span], moment: float) -> bool:
    return any(start <= moment < end for start, end in spans)

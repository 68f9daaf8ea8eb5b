"""What follows when the kernel had to stop a pod: nothing, an event, or the pod's eviction. Pure: no clock, no I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Final

from rowen.crds.base import quantity_text

WINDOW: Final = 600.0
"""Seconds within which a stop counts as happening again, and within which nothing is told twice."""
ARRIVAL: Final = 1.0
"""Seconds of open gate that a process has to attach in."""
_LONGEST_NAME: Final = 64


class Reason(StrEnum):
    """Why the kernel stopped a pod; also the reason of its event."""

    UNATTACHED = "Unattached"
    """A process has not attached."""
    UNACKNOWLEDGED = "Unacknowledged"
    """An attached process has not said in time that it stands still."""
    HANDLER_REPLACED = "HandlerReplaced"
    """An attached process has taken the signal that stops it for itself."""
    OVERDRAWN = "Overdrawn"
    """All had said that they stand still, and the pod used CPU time."""
    KEPT_MEMORY = "KeptMemory"
    """A process has kept memory that it had to give back."""
    WITHHELD_MEMORY = "WithheldMemory"
    """A process has not handed over what it had of an earlier agent."""


@dataclass(frozen=True)
class Process:
    """A process, as the node sees it."""

    pid: int
    name: str
    """What it calls itself: anything."""
    open_seconds: float
    """How long it had run with the gate open when it was stopped."""


@dataclass(frozen=True)
class KernelStop:
    """A pod stopped by the kernel for one closing of the gate."""

    at: float
    """Seconds, monotonic clock. Entries with one time are one stop, for several reasons."""
    reason: Reason
    process: Process | None = None
    """The one that it was for; None where that is not known."""

    @property
    def arriving(self) -> bool:
        """Whether the process may just have been starting, so that this is no offence yet."""
        young = self.process is not None and self.process.open_seconds < ARRIVAL
        return young and self.reason is Reason.UNATTACHED


@dataclass(frozen=True)
class PodRecord:
    """What is known of a pod."""

    stops: tuple[KernelStop, ...]
    """Oldest first; those of the last `WINDOW` at least."""
    told: Mapping[Reason, float] = field(default_factory=dict)
    """When each reason was last told, in seconds on the same clock."""


@dataclass(frozen=True)
class Nothing:
    """Nothing is to be done."""


@dataclass(frozen=True)
class Tell:
    """An event is due. The caller notes the reason as told and asks again: another may be due."""

    reason: Reason
    message: str


@dataclass(frozen=True)
class Evict:
    """The pod has to go."""

    reason: Reason
    message: str


Decision = Nothing | Tell | Evict

_WRONG: Final = {
    Reason.UNATTACHED: "does not load Rowen's library",
    Reason.UNACKNOWLEDGED: "did not stop in time when the device was needed",
    Reason.HANDLER_REPLACED: "has replaced the signal handler that stops it",
    Reason.OVERDRAWN: "used CPU time while the device was needed, after it had said that it stands still",
    Reason.KEPT_MEMORY: "kept memory of the device that it had to give back",
    Reason.WITHHELD_MEMORY: (
        "has memory of the device from before the agent's restart, and has not handed it over in a form that the agent "
        "can take"
    ),
}
_REMEDY: Final = {
    Reason.UNATTACHED: (
        "its program is linked statically or uses musl, or LD_PRELOAD was taken from its environment; "
        "use programs that are linked dynamically with glibc 2.34 or newer, and leave LD_PRELOAD as it is"
    ),
    Reason.UNACKNOWLEDGED: (
        "a thread of it blocks SIGURG by a system call of its own, or waits in the kernel without end; "
        "leave SIGURG alone, and look at what it waits for"
    ),
    Reason.HANDLER_REPLACED: (
        "it sets a handler for SIGURG by a system call of its own, as the Go runtime does; leave SIGURG alone"
    ),
    Reason.OVERDRAWN: (
        "a thread was made, or a process forked, by a system call of its own; make them by the functions of glibc"
    ),
    Reason.KEPT_MEMORY: "give handles back when the grant of the arena falls below what is held",
    Reason.WITHHELD_MEMORY: (
        "where the device's handle was changed nothing is wrong with it; else leave it to Rowen's library to attach "
        "again, and its descriptors open"
    ),
}


def decide(pod: PodRecord, now: float) -> Decision:
    """What follows for a pod from its stops so far. `now` in seconds, on the clock of the stops."""
    offences = [stop for stop in pod.stops if not stop.arriving]
    repeated = _last_again(offences)
    if repeated is not None:
        again = f"the kernel had to stop the pod again within {WINDOW / 60:.0f} minutes"
        return Evict(repeated.reason, f"{_explained(repeated)}; {again}")
    # One arrival is how every process begins. One after the other is a program that never attaches.
    arrival = _last_again([stop for stop in pod.stops if stop.arriving])
    for stop in (*offences, *([arrival] if arrival else [])):
        if _due(stop, pod.told, now):
            return Tell(stop.reason, f"{_explained(stop)}; the kernel stopped the pod instead")
    return Nothing()


def kept_memory(kept_bytes: int) -> Evict:
    """For a pod with a process that has kept so much memory beyond its grant."""
    kept = f"a process of it {_WRONG[Reason.KEPT_MEMORY]} ({quantity_text(kept_bytes)})"
    return Evict(Reason.KEPT_MEMORY, f"{kept}: {_REMEDY[Reason.KEPT_MEMORY]}")


def withheld_memory() -> Evict:
    """For a pod with a process that does not hand over its memory."""
    reason = Reason.WITHHELD_MEMORY
    return Evict(reason, f"a process of it {_WRONG[reason]}: {_REMEDY[reason]}")


def _last_again(stops: Sequence[KernelStop]) -> KernelStop | None:
    """The last stop that came within the window after another."""
    again = [later for earlier, later in pairwise(stops) if 0 < later.at - earlier.at <= WINDOW]
    return again[-1] if again else None


def _due(stop: KernelStop, told: Mapping[Reason, float], now: float) -> bool:
    last = told.get(stop.reason)
    return last is None or (last < stop.at and now - last >= WINDOW)


def _explained(stop: KernelStop) -> str:
    who = "a process" if stop.process is None else f"process {stop.process.pid} ({_shown(stop.process.name)})"
    remedy = _REMEDY[stop.reason]
    if stop.arriving:
        return f"{who} had just started and not loaded Rowen's library, like one before it; if none ever does: {remedy}"
    return f"{who} {_WRONG[stop.reason]}: {remedy}"


def _shown(name: str) -> str:
    """A name that a tenant chose, fit for an event."""
    return "".join(letter if letter.isprintable() else "?" for letter in name[:_LONGEST_NAME])

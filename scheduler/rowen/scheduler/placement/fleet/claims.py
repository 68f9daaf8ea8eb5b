"""What jobs and pods hold on a node, and what a newcomer costs them."""

from typing import NamedTuple

from rowen.scheduler.model.appetite import Appetite
from rowen.scheduler.model.prediction import Prediction
from rowen.scheduler.model.promise import NO_PROMISE, Promise
from rowen.scheduler.snapshot import PodKey

_DIGITS = 9
"""What is smaller than these decimal places is rounding."""


# What is made for each place that is looked at is a NamedTuple: a frozen dataclass takes three times as long.
class Claim(NamedTuple):
    """What a job or a pod holds on a node."""

    key: str
    label: str
    node: str
    devices: tuple[str, ...]
    slots: int
    memory: int
    """Bytes per device."""
    promise: Promise = NO_PROMISE
    """What its prediction has to clear; nothing for best effort."""
    appetite: Appetite | None = None
    """What it does with memory of the pool; None where it may have none."""
    priority: int = 0
    """The job's; 0 for a pod without an assignment."""
    rate: float = 1.0
    """Its throughput alone on these devices over that on the device type that suits it best, as far as known."""
    pod: PodKey | None = None
    """The pod that reports tell of; None where there is none yet."""
    short: bool = False
    """Whether it is measured below its SLA: nobody joins it, whatever it is predicted."""
    rides: bool = False
    """Whether it is a seat in the engine of its device: it has no slot, and nothing of the device's memory."""
    leaves: bool = False
    """Whether its pod is being deleted, and does not hang: it will be gone before a newcomer's has started."""


class Fall(NamedTuple):
    """What a newcomer does to a claim, as fractions of its throughput alone."""

    claim: Claim
    before: float
    after: float
    need: float
    """Least fraction that it was promised, unsure as `after` is; 0 for best effort."""

    @property
    def loss(self) -> float:
        """Throughput that it loses, in devices of the type that suits it best."""
        return round((self.before - self.after) * len(self.claim.devices) * self.claim.rate, _DIGITS)


class Impact(NamedTuple):
    """What a newcomer does to everyone on its devices."""

    falls: tuple[Fall, ...] = ()
    loss: float = 0.0
    """Throughput that they lose together, in devices."""
    priority: int = 0
    """Highest priority of those who lose."""

    @property
    def broken(self) -> Fall | None:
        """The first claim that would fall below what it was promised, or is below it and would fall further."""
        for fall in self.falls:
            if fall.claim.short or fall.after < fall.need:
                return fall
        return None

    def gain(self, harvest: float) -> float:
        """What is harvested in addition when the newcomer harvests so much; both in devices."""
        return round(harvest - self.loss, _DIGITS) or 0.0

    def forbids(self, gain: float, priority: int) -> bool:
        """Whether a newcomer has to stay away: it would lower the total, and not go before all who pay for it."""
        return gain < 0.0 and priority <= self.priority


NO_IMPACT = Impact()


def sharing(tenants: int) -> float:
    """Part of a device that each of so many tenants gets."""
    return 1.0 / tenants


def fall_of(claim: Claim, before: Prediction, after: Prediction) -> Fall:
    """What becomes of a claim whose prediction changes so."""
    return Fall(claim, before.fraction, after.fraction, claim.promise.need(after.uncertainty))


def impact_of(falls: tuple[Fall, ...]) -> Impact:
    """The falls together."""
    losses = [fall.loss for fall in falls]
    losers = [fall.claim.priority for fall, loss in zip(falls, losses, strict=True) if loss > 0.0]
    return Impact(falls, sum(losses), max(losers, default=0))

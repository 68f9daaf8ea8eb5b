"""What a job does with memory of the pool, on a device of any type and size."""

from collections.abc import Mapping

from rowen.scheduler.model.evidence import learned
from rowen.scheduler.model.memory import MemoryNeed
from rowen.scheduler.model.profile import Profile, ProfileKey


class Appetite:
    """Of jobs that are alike, by all that is known of their workload class. A history has one of each kind.

    `own_bytes`: what a job has for itself; `prior`: what its spec tells of the rest.
    """

    def __init__(
        self, workload: str, own_bytes: int, prior: MemoryNeed, profiles: Mapping[ProfileKey, Profile]
    ) -> None:
        self._workload, self._own_bytes, self._prior, self._profiles = workload, own_bytes, prior, profiles
        self._known: dict[tuple[str, int], MemoryNeed] = {}

    def on(self, device_type: str, device_bytes: int) -> MemoryNeed:
        """On a device of that type and size."""
        key = device_type, device_bytes
        if key not in self._known:
            self._known[key] = self._worked_out(device_type, device_bytes)
        return self._known[key]

    def _worked_out(self, device_type: str, device_bytes: int) -> MemoryNeed:
        prior = self._prior.within(device_bytes - self._own_bytes)
        profile = self._profiles.get((self._workload, device_type))
        if profile is None or profile.memory is None or prior.want_bytes == 0:
            return prior
        return learned(prior, profile.memory, profile.tokens_per_second)

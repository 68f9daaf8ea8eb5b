"""What simulated tenants have done: each makes its part of what the open gate allows."""

from collections.abc import Sequence
from dataclasses import dataclass

from plane.engine import BURST_SECONDS

from rowen.node_agent.devices.counts import TenantCounts
from rowen.node_agent.kubelet.pods import PodView

TOKENS_PER_SECOND = 900.0
"""Of a tenant alone while the gate is open, whatever its class."""
_UNIT_TOKENS, _UNITS = 450, 100_000
"""A unit of work, and how many a job has: no report finds one at its end."""


@dataclass
class _Done:
    granted: float = 0.0
    tokens: float = 0.0


class Progress:
    """Of all tenants of a node. `idle`: the part of the time in which the gate is open."""

    def __init__(self, idle: float) -> None:
        self._idle = idle
        self._done: dict[tuple[str, str], _Done] = {}
        self._looked: float | None = None

    def advance(self, devices: Sequence[Sequence[PodView]], now: float) -> None:
        """Up to `now`, seconds. `devices`: who is on each; who has just come has done nothing yet."""
        passed = 0.0 if self._looked is None else max(0.0, now - self._looked)
        self._looked = now
        crowds: dict[tuple[str, str], int] = {}
        for pods in devices:
            for pod in pods:
                crowds[pod.key] = max(crowds.get(pod.key, 1), len(pods))
        for key in crowds.keys() & self._done.keys():
            granted = self._idle * passed
            self._done[key].granted += granted
            self._done[key].tokens += TOKENS_PER_SECOND * granted / crowds[key]
        self._done = {key: self._done.get(key, _Done()) for key in crowds}

    def counts(self, pod: PodView) -> TenantCounts:
        """What its agent would have read of it."""
        done = self._done[pod.key]
        return TenantCounts(
            attached=1, open_seconds=done.granted, preemptions=int(done.granted // BURST_SECONDS), backstops=0,
            reports=1, completed=int(done.tokens // _UNIT_TOKENS), total=_UNITS, tokens=int(done.tokens),
            granted_seconds=done.granted,
        )  # fmt: skip

"""Requests of an online service, as arrays."""

from dataclasses import dataclass

import numpy as np

from rowen.simulator.arrays import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """Requests in order of arrival; the arrays have the same length."""

    arrivals: Floats
    """Seconds."""
    inputs: Floats
    """Input tokens."""
    outputs: Floats
    """Output tokens."""

    def __len__(self) -> int:
        return len(self.arrivals)

    @property
    def span(self) -> float:
        """Seconds from the first arrival to the last."""
        return float(self.arrivals[-1] - self.arrivals[0]) if len(self) else 0.0

    def shifted(self, seconds: float) -> "Requests":
        """The same, so many seconds later."""
        return Requests(self.arrivals + seconds, self.inputs, self.outputs)

    def at(self, index: Ints | slice) -> "Requests":
        """Some of them."""
        return Requests(self.arrivals[index], self.inputs[index], self.outputs[index])

    def between(self, start: float, end: float) -> "Requests":
        """Those that arrive in [start, end)."""
        first, last = np.searchsorted(self.arrivals, (start, end))
        return self.at(slice(int(first), int(last)))


EMPTY = Requests(np.empty(0), np.empty(0), np.empty(0))


def in_order(requests: Requests) -> Requests:
    """The same requests, sorted by arrival; those that arrive together keep their order."""
    return requests.at(np.argsort(requests.arrivals, kind="stable"))


def joined(parts: list[Requests]) -> Requests:
    """All of them, sorted by arrival."""
    if not parts:
        return EMPTY
    return in_order(
        Requests(
            np.concatenate([part.arrivals for part in parts]),
            np.concatenate([part.inputs for part in parts]),
            np.concatenate([part.outputs for part in parts]),
        )
    )

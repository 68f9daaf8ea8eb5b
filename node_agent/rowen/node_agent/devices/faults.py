"""Why devices cannot be used now. A driver may never answer: that is a fault of its own device alone."""

from collections.abc import Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial

from rowen.node_agent.devices.backend import Backend
from rowen.node_agent.errand import errand

LOOK_SECONDS = 3.0
"""A driver that has not answered by then does not answer."""


@dataclass(frozen=True)
class _Look:
    fault: str | None
    hardware: str


def _look(backend: Backend) -> _Look:
    try:
        fault = backend.fault()
        return _Look(fault, backend.hardware() if fault is None else "")
    except (OSError, ValueError) as error:
        return _Look(f"what the node says of it cannot be read: {error}", "")


class Faults:
    """Of one node's devices."""

    def __init__(self, backends: Mapping[str, Backend]) -> None:
        self.hardware: dict[str, str] = {}
        """What each device is that had no fault, by id."""
        self._backends = dict(backends)
        self._looks: dict[str, Future[_Look]] = {}
        """Those that have not ended."""

    def find(self) -> dict[str, str]:
        """Looks at all devices, at each in a thread of its own; why some cannot be used, by id.

        Takes `LOOK_SECONDS` at most. A device whose last look has not ended is not looked at again.
        """
        for name, backend in self._backends.items():
            if name not in self._looks:
                self._looks[name] = errand(partial(_look, backend))
        wait(self._looks.values(), LOOK_SECONDS)
        faults = {name: self._fault(name) for name in self._backends}
        return {name: fault for name, fault in faults.items() if fault is not None}

    def _fault(self, name: str) -> str | None:
        if not self._looks[name].done():
            return "the driver does not answer"
        look = self._looks.pop(name).result()
        if look.fault is None:
            self.hardware[name] = look.hardware
        return look.fault

"""The lease of the engine's device, as what rides in the engine sees it.

A job whose node is taken for lost is computed elsewhere. So it stands still here from when the lease has run out.
"""

import functools
import threading
import time
from collections.abc import Callable

from rowen.runtime.native import online

_LOOK_SECONDS = 0.25
"""Between two looks at one that has run out: the agent renews it as often."""


class Lease:
    """Of this process's device. One thread asks it."""

    def __init__(self) -> None:
        self._missed = False
        """Whether something stands still since it was awaited last."""
        self._awaited = False

    def holds(self) -> bool:
        """Whether what rides may go on: always where there is no device. Costs less than a microsecond."""
        if _runs():
            return True
        self._missed = True
        return False

    def call_when_back(self, call: Callable[[], None]) -> None:
        """Has it called once, on another thread, as soon as the lease is back; not where nothing stands still."""
        if not self._missed or self._awaited:
            return
        self._missed, self._awaited = False, True
        try:
            threading.Thread(target=self._await, args=(call,), name="rowen-lease", daemon=True).start()
        except RuntimeError:
            # There is no thread to be had: whoever wakes the engine next has it look again.
            self._missed, self._awaited = True, False

    def _await(self, call: Callable[[], None]) -> None:
        while not _runs():
            time.sleep(_LOOK_SECONDS)
        # In this order: who is called may have to wait anew.
        self._awaited = False
        call()


@functools.cache
def engine_lease() -> Lease:
    """What all that rides in this process's engine asks."""
    return Lease()


def _runs() -> bool:
    device = online()
    return device is None or device.leased()

"""Processes that say that they have memory of an earlier agent, and do not hand it over. No I/O."""

from collections.abc import Collection, Sequence

from rowen.node_agent.tries import Tries

PATIENCE_SECONDS = 10.0
"""Of running time: the library hands over before it lets the process run."""


class Withheld:
    """Of one device."""

    def __init__(self) -> None:
        self._since: dict[tuple[int, int], float] = {}
        self._tries = Tries[int]()

    def due(self, owing: Collection[tuple[int, int]], open_seconds: Sequence[float], now: float) -> list[int]:
        """Slots of which a process has run for too long with such memory, where an eviction is due.

        `owing`: such processes, by slot and process id. `open_seconds`: how long the gate was open for each
        slot so far. `now`: seconds, monotonic clock.
        """
        self._since = {process: self._since.get(process, open_seconds[process[0]]) for process in owing}
        late = {slot for (slot, _), since in self._since.items() if open_seconds[slot] - since >= PATIENCE_SECONDS}
        return self._tries.due(late, now)

"""How many tokens of batch rows a step may hold."""

from typing import Protocol

from typing_extensions import override

from rowen.runtime.coserve.load import Load

_IDLE_TOKENS = 32
"""A step of so many ends soon on any device."""


class Pace(Protocol):
    """Decides before each step that has rows to take, as `coserve.planning.pacing.Pacing` does."""

    def tokens(self, load: Load) -> int:
        """Most tokens of rows that go into a step with this load of online requests."""


class IdlePace(Pace):
    """In place of one that failed: rows have the steps without online requests, in short ones."""

    @override
    def tokens(self, load: Load) -> int:
        return 0 if load.has_requests else _IDLE_TOKENS

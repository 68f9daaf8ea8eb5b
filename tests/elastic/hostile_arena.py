"""A `LocalArena` in which nothing that is written to taken memory can be read again."""

import threading
from collections.abc import Callable, Sequence

from memory.local_arena import RUBBISH, LocalArena
from typing_extensions import override


class HostileArena(LocalArena):
    """`spoil` makes unreadable what was written since to handles without memory.

    As the process stands still while something is taken, no other call is seen half done.
    """

    def __init__(self, capacity: int, handle_bytes: int, grant: int | None = None) -> None:
        super().__init__(capacity, handle_bytes, grant)
        self.lock = threading.RLock()
        self._spoiled: set[int] = set()
        self.on_wait: Callable[[int], None] | None = None
        """Called with the wanted grant when somebody waits, instead of waiting."""

    @override
    def map(self, handles: Sequence[int]) -> int:
        with self.lock:
            count = super().map(handles)
            self._spoiled.difference_update(handles[:count])
            return count

    @override
    def unmap(self, handles: Sequence[int]) -> None:
        with self.lock:
            super().unmap(handles)
            self._spoiled.update(handles)

    @override
    def lost(self) -> list[int]:
        with self.lock:
            return super().lost()

    @override
    def take(self, handles: Sequence[int]) -> None:
        with self.lock:
            super().take(handles)
            self._spoiled.update(handles)

    @override
    def wait(self, grant: int, timeout_seconds: float) -> bool:
        if self.on_wait is None:
            return super().wait(grant, timeout_seconds)
        self.on_wait(grant)
        return self.grant >= grant

    def take_all(self) -> None:
        """Takes whatever is mapped, and all of the grant."""
        with self.lock:
            self.take(sorted(self.mapped))
            self.set_grant(0)

    def spoil(self) -> None:
        with self.lock:
            for handle in self._spoiled:
                start = handle * self.handle_bytes
                self.buffer[start : start + self.handle_bytes] = bytes([RUBBISH]) * self.handle_bytes

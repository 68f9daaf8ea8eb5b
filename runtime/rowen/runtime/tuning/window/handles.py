"""The handles of the arena that this process holds."""

import threading
from collections.abc import Iterable, Sequence

from rowen.runtime.memory.arena import Arena


class Handles:
    """The arena, with a number for each time that a handle was mapped: who remembers it knows whether it was lost.

    Every call needs `lock`, since an arena takes one thread at a time.
    """

    def __init__(self, arena: Arena) -> None:
        self.lock = threading.Condition()
        """Notified when memory was loaded."""
        self._arena = arena
        self._serials: dict[int, int] = {}
        self._mappings = 0
        self._room: int | None = None
        """Handles that were mapped when no more could be, although more were granted; None: that has not been seen."""

    def serial(self, handle: int) -> int | None:
        """Number of the handle's mapping; None while it has no memory, as far as `notice` has heard."""
        return self._serials.get(handle)

    def serials(self, handles: Iterable[int]) -> tuple[int | None, ...]:
        """The same for each of them."""
        return tuple(map(self._serials.get, handles))

    @property
    def taken(self) -> int:
        """As `Arena.taken`."""
        return self._arena.taken

    @property
    def handle_bytes(self) -> int:
        """As `Arena.handle_bytes`."""
        return self._arena.handle_bytes

    @property
    def held(self) -> int:
        """Handles that are mapped, as far as `notice` has heard."""
        return len(self._serials)

    @property
    def grant(self) -> int:
        """As `Arena.grant`."""
        return self._arena.grant

    @property
    def most(self) -> int:
        """Handles that may be mapped in all: as many as are granted, or fewer where the pod's memory limit is near."""
        return self.grant if self._room is None else min(self.grant, self._room)

    @property
    def is_limited(self) -> bool:
        """Whether more is granted than can be mapped."""
        return self.most < self.grant

    @property
    def spare(self) -> int:
        """Handles that may still be mapped; negative when more are held than is granted."""
        return self.most - self.held

    def look_again(self) -> None:
        """Takes it that all that is granted can be mapped, until it turns out that it cannot."""
        self._room = None

    def notice(self) -> None:
        """Hears which handles were taken away."""
        for handle in self._arena.lost():
            self._serials.pop(handle, None)

    def map(self, handles: Sequence[int]) -> list[int]:
        """Maps as many of these handles as is granted and can be, the first ones first. Returns those."""
        # A handle that was taken before it was given back stands in the arena's list still.
        self.notice()
        mapped = list(handles[: self._arena.map(handles)])
        for handle in mapped:
            self._mappings += 1
            self._serials[handle] = self._mappings
        if len(mapped) < len(handles) and self.held < self.grant:
            self._room = self.held
        elif self._room is not None:
            self._room = max(self._room, self.held)
        return mapped

    def unmap(self, handles: Iterable[int]) -> None:
        """Gives handles back; those that are not held are left out."""
        self.notice()
        held = [handle for handle in handles if handle in self._serials]
        self._arena.unmap(held)
        for handle in held:
            del self._serials[handle]

    def wait(self, more: int, timeout_seconds: float) -> None:
        """Waits until so many more handles may be mapped, or until the time is up."""
        self._arena.wait(len(self._serials) + more, timeout_seconds)

    def want(self, handles: int) -> None:
        """As `Arena.want`."""
        self._arena.want(handles)

"""What a process sees of the device's pool: a range of addresses, of which some handles have memory."""

from collections.abc import Sequence
from typing import Protocol


class Arena(Protocol):
    """A reserved range, divided into handles of equal size; handle i begins at byte i times `handle_bytes`.

    A handle is *mapped* while it has memory of the pool. The device's owner may take mapped handles away at any moment
    in which this process stands still behind its gate, so between any two instructions. A taken handle's content is
    gone: what is read there is meaningless, what is written goes nowhere, neither faults. So a computation on mapped
    handles counts only if `taken` is the same before and after it. The same holds of handles that are not mapped.

    No call waits for anybody. One thread at a time may call.
    """

    handle_bytes: int
    """Size of a handle, in bytes: a power of two, 2 MiB by default."""
    capacity: int
    """Handles in the range."""

    @property
    def buffer(self) -> memoryview:
        """The whole range, writable, of `capacity * handle_bytes` bytes; its address never changes."""

    @property
    def grant(self) -> int:
        """Most handles that may be mapped now; changes at any moment."""

    @property
    def taken(self) -> int:
        """Handles that were taken away so far, counted up; a single read of shared memory."""

    def map(self, handles: Sequence[int]) -> int:
        """Gives memory, zeroed, to the first n of these handles, as many as the grant allows. Returns n.

        None of them may be mapped or named twice. Raises `ValueError`, and maps none, for a handle outside the range,
        named twice, or mapped already; one that was taken counts as mapped until `lost` has said so.
        """

    def unmap(self, handles: Sequence[int]) -> None:
        """Gives handles back, content and all; `lost` does not name one that was taken meanwhile any more.

        Raises `ValueError`, and unmaps none, for a handle that is not mapped or named twice.
        """

    def lost(self) -> list[int]:
        """Handles that were taken away since the last call; they are not mapped any more and may be mapped anew."""

    def want(self, handles: int) -> None:
        """Says how many handles this process would hold if it could; the grant may follow."""

    def use(self, handles: int) -> None:
        """Says how many of the mapped handles are in use; the rest is ahead of need. Matters for online engines."""

    def wait(self, grant: int, timeout_seconds: float) -> bool:
        """Waits until the grant is at least that. The one call that waits; False when the time was up first."""

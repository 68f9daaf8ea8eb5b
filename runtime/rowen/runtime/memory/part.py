"""What of its device's pool a process may have."""

from dataclasses import dataclass

from rowen.crds.base import quantity_text
from rowen.runtime.memory.arena import Arena
from rowen.runtime.memory.ledger import Ledger


@dataclass(frozen=True)
class PoolPart:
    """An arena of the pool, and how much of it the process may ever hold."""

    arena: Arena
    handles: int
    """Most handles that it is ever granted; never more than the arena has."""
    ledger: Ledger | None = None
    """Where to say what would be lost with each handle; None where nobody reads it."""
    asked_bytes: int | None = None
    """What memoryLimit leaves of the pool, where the device has less than that for it."""

    @property
    def bytes(self) -> int:
        """Of all its handles."""
        return self.handles * self.arena.handle_bytes

    @property
    def in_words(self) -> str:
        """How much it is, and who says so: for messages."""
        if self.asked_bytes is None:
            return f"memoryLimit leaves {quantity_text(self.bytes)} of the device's pool"
        has, asked = quantity_text(self.bytes), quantity_text(self.asked_bytes)
        return f"the device's pool has {has}, although memoryLimit leaves {asked}"

    @property
    def remedy(self) -> str:
        """What to do where that is too little: the end of a sentence."""
        return "raise memoryLimit" if self.asked_bytes is None else "take a device with more memory"

"""What of its device's pool a process may have."""

from dataclasses import dataclass

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

"""When each layer is needed next: forward through all of them and back, over and over. Pure functions."""

from dataclasses import dataclass
from enum import Enum


class Phase(Enum):
    """What the model does."""

    EVALUATION = "evaluation"
    """Forward, with no backward to follow."""
    FORWARD = "forward"
    BACKWARD = "backward"


@dataclass(frozen=True)
class Position:
    """Where the computation is."""

    phase: Phase
    layer: int


def distances(position: Position, layers: int) -> list[int]:
    """Passes of layers until each layer is needed next; 0 for the one that is needed now."""
    if position.phase is Phase.EVALUATION:
        return [(layer - position.layer) % layers for layer in range(layers)]
    # Of a round of 2 * layers passes, a layer's forward is number `layer`, its backward `last - layer`.
    last = 2 * layers - 1
    now = position.layer if position.phase is Phase.FORWARD else last - position.layer
    return [min((layer - now) % (last + 1), (last - layer - now) % (last + 1)) for layer in range(layers)]


def cost_tokens(distance: int, pass_tokens: int) -> int:
    """What it costs to lose memory that is needed after so many passes.

    The pass that runs now is lost with all its tokens; what is needed later can be loaded again meanwhile.
    """
    return pass_tokens // (distance + 1)

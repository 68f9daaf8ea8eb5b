"""The gate: closed while the online side is busy, and until the device has been idle for a cooldown without a break."""

from rowen.simulator.arrays import Floats
from rowen.simulator.node.intervals import Intervals, union

COOLDOWN_FLOOR_SECONDS = 0.002
COOLDOWN_CEILING_SECONDS = 0.5


def cooldown_seconds(decode_gap_seconds: float) -> float:
    """The wake rule (Valve, section 4): twice the largest decode gap, within the agent's bounds.

    The agent's own is native (`node_agent/native/agent/loop.c`); a test compares the bounds.
    """
    return min(COOLDOWN_CEILING_SECONDS, max(COOLDOWN_FLOOR_SECONDS, 2.0 * decode_gap_seconds))


def closed(begins: Floats, ends: Floats, cooldown: float) -> Intervals:
    """When the gate is closed. `begins` and `ends` say when each request is in flight; all in seconds.

    That offline work takes a moment to stop is not part of it: that moment belongs to the online side.
    """
    return union(begins, ends + cooldown)

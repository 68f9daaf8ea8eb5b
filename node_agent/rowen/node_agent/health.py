"""Which of the agent's loops and threads have not come round for too long."""

from collections.abc import Mapping

LOOP_PATIENCE = 30.0
"""Seconds that a loop may take for a round; the slowest one asks the API server several times."""
THREAD_PATIENCE = 10.0
"""Seconds that a device's native thread may take; it comes round every 0.1 s, and before what it competes with."""


def stalled(loops: Mapping[str, float], threads: Mapping[str, float], now: float) -> list[str]:
    """What is stalled, in words. The mappings say when each loop and each thread last came round.

    All times in seconds, on one clock. A loop that has not begun is not listed, and not stalled.
    """
    return [
        *(f"loop {name}" for name, beat in loops.items() if now - beat > LOOP_PATIENCE),
        *(
            f"{name}: its native thread has not come round for {now - beat:.0f} s"
            for name, beat in threads.items()
            if now - beat > THREAD_PATIENCE
        ),
    ]

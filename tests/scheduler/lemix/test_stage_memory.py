"""Algorithm 2, each branch."""

import pytest

from rowen.scheduler.lemix.stage_memory import MemoryLimits, MemoryStep, memory_step

# Threshold 0.75 · 100 = 75.
LIMITS = MemoryLimits(peak=100.0, safety=0.75, check_seconds=0.1, wait_seconds=1.0)


@pytest.mark.parametrize(
    ("used", "need", "waited", "step", "reason"),
    [
        (0.0, 10.0, 0.0, MemoryStep.RUN, "10 of 75 free"),
        (65.0, 10.0, 0.0, MemoryStep.RUN, "10 of 10 free"),
        # Free memory ends any wait.
        (65.0, 10.0, 5.0, MemoryStep.RUN, "10 of 10 free"),
        (66.0, 10.0, 0.0, MemoryStep.WAIT, "10 needed, 9 free"),
        (66.0, 10.0, 0.99, MemoryStep.WAIT, "10 needed, 9 free"),
        (66.0, 10.0, 1.0, MemoryStep.OFFLOAD, "10 not free after 1.000 s"),
        (66.0, 10.0, 1.5, MemoryStep.OFFLOAD, "10 not free after 1.500 s"),
        # What is above the threshold by now counts as nothing free.
        (80.0, 10.0, 0.0, MemoryStep.WAIT, "10 needed, 0 free"),
        (0.0, 75.0, 0.0, MemoryStep.RUN, "75 of 75 free"),
        (1.0, 75.0, 0.0, MemoryStep.WAIT, "75 needed, 74 free"),
        # It would never fit: no wait.
        (0.0, 75.5, 0.0, MemoryStep.OFFLOAD, "75.5 is above the threshold 75"),
    ],
)
def test_each_branch(used, need, waited, step, reason):
    found = memory_step(used, need, waited, LIMITS)
    assert (found.step, found.reason) == (step, reason)

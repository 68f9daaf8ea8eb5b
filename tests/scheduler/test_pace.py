"""How often the scheduler passes."""

import pytest

from rowen.scheduler.pace import pause_seconds


@pytest.mark.parametrize(
    ("worked", "failures", "pause"),
    [(0.0, 0, 0.2), (0.05, 0, 0.2), (0.1, 0, 0.4), (5.0, 0, 20.0), (9.0, 0, 20.0), (0.0, 1, 2.0), (0.0, 3, 8.0),
     (0.0, 99, 20.0), (1.0, 1, 4.0)],
)  # fmt: skip
def test_pauses_follow_the_work_and_the_failures(worked: float, failures: int, pause: float) -> None:
    assert pause_seconds(worked, failures) == pytest.approx(pause)

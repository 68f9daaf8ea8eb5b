"""When a pod that nobody is left to stop is deleted by force."""

from dataclasses import replace

import pytest
from operator_builders import NOW, job, report, running

from rowen.operator.decision import Removal
from rowen.operator.jobs.lost_pods import forced
from rowen.operator.world.listening import Listening

GONE = Removal("job-1", "p1", "node node-1 is lost and its lease has run out", force=True)


@pytest.mark.parametrize(
    ("due", "heard", "listening", "lost"),
    [
        (NOW - 30.5, NOW - 61, Listening(0.0, NOW), True),
        # 30 s after its deletion was due, and no sooner.
        (NOW - 30, NOW - 99, Listening(0.0, NOW), False),
        (NOW - 30.5, NOW - 99, Listening(0.0, NOW), True),
        # More than two leases of silence, all of it listened to.
        (NOW - 99, NOW - 60, Listening(0.0, NOW), False),
        (NOW - 99, NOW - 99, Listening(NOW - 60, NOW), False),
        (NOW - 99, NOW - 99, Listening(NOW - 60.5, NOW), True),
        (NOW - 99, NOW - 99, Listening(0.0, NOW - 39), False),
        (NOW - 99, NOW - 99, Listening(0.0, NOW - 38.5), True),
        (NOW - 99, NOW - 99, None, False),
        # A node that has never reported.
        (NOW - 99, None, Listening(NOW - 61, NOW), True),
        (NOW - 99, None, Listening(NOW - 59, NOW), False),
        (None, NOW - 99, Listening(0.0, NOW), False),
    ],
)
def test_forced(due: float | None, heard: float | None, listening: Listening | None, lost: bool) -> None:
    reports = () if heard is None else (replace(report(), heard=heard),)
    snapshot = replace(job(pods=(running(deletion_deadline=due),), reports=reports), listening=listening)
    assert forced(snapshot, NOW) == (GONE,) * lost

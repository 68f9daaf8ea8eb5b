"""What an API server says of an assignment that it refuses, as far as a status tells it."""

import pytest
from scheduler.builders import NOW, POLICY

from rowen.scheduler.decision import EVERY_NODE, not_taken
from rowen.scheduler.history import History


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "AssignmentRefused"),
        ("quota  of\nteam", "AssignmentRefused: quota of team"),
        ("x" * 200, "AssignmentRefused: " + "x" * 200),
        ("x" * 201, "AssignmentRefused: " + "x" * 199 + "…"),
    ],
)
def test_200_of_its_characters_are_told(words: str, told: str) -> None:
    history = not_taken(History(), {("ns", "job"): words}, NOW, POLICY)
    [(key, backoff)] = history.backoffs.items()
    assert (key, backoff.reason) == ((("ns", "job"), EVERY_NODE), told)

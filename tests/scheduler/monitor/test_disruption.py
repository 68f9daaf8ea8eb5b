"""When so many nodes are silent that it is rather the scheduler who does not hear."""

import pytest
from scheduler.builders import POLICY

from rowen.scheduler.monitor.disruption import spared

LOST = 33.1
FRESH = 4.0


def of(*silences: float) -> list[str]:
    return sorted(spared({f"n{number}": silence for number, silence in enumerate(silences)}, POLICY))


@pytest.mark.parametrize(
    ("silent", "others", "kept"),
    [
        (1, 0, False),
        (1, 1, False),
        (2, 0, True),
        (2, 1, True),
        (2, 2, False),
        (3, 1, True),
        (3, 2, True),
        (3, 3, False),
        (50, 50, False),
        (51, 50, True),
    ],
)
def test_more_than_half_and_at_least_two(silent: int, others: int, kept: bool) -> None:
    found = of(*[LOST] * silent, *[FRESH] * others)
    assert found == (sorted(f"n{number}" for number in range(silent)) if kept else [])


@pytest.mark.parametrize(("silence", "kept"), [(33.0, False), (33.1, True), (333.0, True), (333.1, False)])
def test_a_node_is_waited_for_from_the_end_of_its_lease_for_a_bounded_time(silence: float, kept: bool) -> None:
    assert ("n0" in of(silence, LOST, LOST)) == kept


@pytest.mark.parametrize(("second", "kept"), [(20.0, False), (20.1, True), (1e9, True)])
def test_nodes_count_as_silent_before_they_are_overdue(second: float, kept: bool) -> None:
    """Reports come at different moments: the first node is overdue seconds before the last."""
    assert of(LOST, second) == (["n0"] if kept else [])

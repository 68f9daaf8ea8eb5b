"""A node's signs of life, on the operator's clock."""

import pytest

from rowen.crds.names import NODE_LEASE_SECONDS
from rowen.operator.world.reports import Report, Sign, noticed

NOW = 10_000.0


@pytest.mark.parametrize(("stamp", "time"), [(NOW - 7, NOW - 7), (NOW + 7, NOW), (NOW, NOW), (None, None)])
def test_the_first_sign_is_as_old_as_it_says_and_never_from_the_future(stamp: float | None, time: float | None) -> None:
    assert noticed(None, stamp, NOW) == Sign(stamp, time, NOW)


def test_a_sign_is_given_when_it_changes_whatever_its_time() -> None:
    first = noticed(None, NOW - 3600, NOW)
    assert noticed(first, NOW - 3600, NOW + 5) is first
    assert noticed(first, NOW - 3595, NOW + 5) == Sign(NOW - 3595, NOW + 5, NOW + 5)
    assert noticed(first, NOW - 7200, NOW + 5) == Sign(NOW - 7200, NOW + 5, NOW + 5)


def test_what_has_no_time_yet_is_no_sign_until_it_has() -> None:
    silent = noticed(None, None, NOW)
    assert noticed(silent, None, NOW + 5) is silent
    assert noticed(silent, NOW + 3, NOW + 5) == Sign(NOW + 3, NOW + 5, NOW + 5)


@pytest.mark.parametrize(("age", "fresh"), [(0.0, True), (NODE_LEASE_SECONDS, True), (NODE_LEASE_SECONDS + 0.1, False)])
def test_a_report_is_read_for_as_long_as_its_nodes_lease(age: float, fresh: bool) -> None:
    assert Report("n", NOW - age).fresh(NOW) == fresh
    assert not Report("n", None).fresh(NOW)

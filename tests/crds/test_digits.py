"""How many digits are told."""

import pytest

from rowen.crds.text.digits import significant


@pytest.mark.parametrize(
    ("value", "digits", "found"),
    [(0.0, 3, 0.0), (1234.5, 3, 1230.0), (0.0012345, 3, 0.00123), (99.96, 3, 100.0), (-1234.56, 4, -1235.0)],
)
def test_significant_digits(value: float, digits: int, found: float) -> None:
    assert significant(value, digits) == found

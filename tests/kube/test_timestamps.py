"""Times."""

import pytest

from rowen.kube.timestamps import rfc3339, unix_or_none, unix_seconds


def test_round_trip() -> None:
    assert rfc3339(1.75) == "1970-01-01T00:00:01Z"
    assert rfc3339(1.75, "microseconds") == "1970-01-01T00:00:01.750000Z"
    assert unix_seconds("1970-01-01T00:00:01.750000Z") == 1.75
    assert unix_seconds("1970-01-01T01:00:01+01:00") == 1.0


@pytest.mark.parametrize("text", ["", "x", "1970-01-01T00:00:01", "1970-13-01T00:00:01Z"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError):
        unix_seconds(text)


def test_an_absent_time() -> None:
    assert unix_or_none(None) is None
    assert unix_or_none("") is None
    assert unix_or_none("1970-01-01T00:00:02Z") == 2.0

"""What counts as already there."""

from typing import Any

import pytest

from rowen.operator.services.drift import covers

POD: dict[str, Any] = {"containers": [{"name": "a", "args": ["x", "y"]}, {"name": "b"}], "count": 2, "on": True}


@pytest.mark.parametrize(
    ("current", "wanted", "there"),
    [
        (POD, POD, True),
        ({**POD, "defaulted": 1}, POD, True),
        ({**POD, "containers": [{**POD["containers"][0], "image": "i"}, {"name": "b"}]}, POD, True),
        ({name: POD[name] for name in ("containers", "count")}, POD, False),
        ({**POD, "count": 3}, POD, False),
        ({**POD, "on": False}, POD, False),
        ({**POD, "containers": POD["containers"][:1]}, POD, False),
        ({**POD, "containers": [*POD["containers"], {"name": "c"}]}, POD, False),
        ({**POD, "containers": POD["containers"][::-1]}, POD, False),
        ({**POD, "containers": [{"name": "a", "args": ["x"]}, {"name": "b"}]}, POD, False),
        ({**POD, "containers": None}, POD, False),
        ({**POD, "containers": {"name": "a"}}, POD, False),
        (None, POD, False),
        (["a"], {"a": 1}, False),
        ({}, {}, True),
        ([], [], True),
        (None, None, True),
        (0, None, False),
        ("1024", "1Ki", True),
        (1, "1", True),
        ("1024Mi", "1Gi", True),
        ("1Gi", "1G", False),
        ("2", "2000m", True),
        ("100m", "0.1", True),
        ("100m", "200m", False),
        ("2", "+2", True),
        ("1073741824", 1073741824, True),
        ("1Gi", 1073741824, True),
        ("1Gi", 1073741825, False),
        ("1", True, False),
        ({"a": 1}, {"a": 1, "b": "", "c": None, "d": [], "e": {}, "f": False, "g": 0}, True),
        ({"a": 1}, {"a": 1, "b": "x"}, False),
        ({"a": "x"}, {"a": ""}, False),
        ("text", "text", True),
        ("text", "other", False),
        ("1Gi", "other", False),
        ("other", "1Gi", False),
        (None, "1", False),
    ],
)
def test_what_is_there_already(current: Any, wanted: Any, there: bool) -> None:
    assert covers(current, wanted) is there

"""The local copy: what is newer wins, and what was deleted stays so."""

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kube.odd import thing
from structlog.testing import capture_logs

from rowen.kube.client import Raw
from rowen.kube.copy import BURIED_SECONDS, Copy, lean
from rowen.kube.errors import UnreachableError
from rowen.kube.listing import version_of


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def parsed(raw: Raw) -> int | None:
    version = version_of(raw)
    if version == 13:
        raise ValueError("unlucky")
    return None if version == 7 else version


@pytest.fixture
def told() -> list[tuple[int | None, int | None]]:
    return []


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def copy(told: list[tuple[int | None, int | None]], clock: Clock) -> Copy[int]:
    return Copy("Thing", parsed, lambda old, new: told.append((old, new)), clock)


def test_the_newest_version_wins(copy: Copy[int], told: list[Any]) -> None:
    assert [copy.put(thing(version)) for version in (2, 5, 5, 3)] == [True, True, False, False]
    assert copy.values() == [5]
    assert told == [(None, 2), (2, 5)]


def test_no_older_answer_brings_back_what_was_deleted(copy: Copy[int], told: list[Any]) -> None:
    copy.put(thing(2))
    copy.remove(thing(6))
    assert not copy.put(thing(5))
    copy.replace([thing(5)], 5)
    assert copy.values() == []
    assert told == [(None, 2), (2, None)]


def test_an_older_deletion_takes_nothing_newer_away(copy: Copy[int]) -> None:
    """An object that has left a selector and come back."""
    copy.put(thing(2))
    copy.remove(thing(4))
    assert copy.put(thing(6))
    copy.remove(thing(4))
    assert copy.values() == [6]


def test_a_listing_deletes_what_it_lacks_and_is_not_newer(copy: Copy[int]) -> None:
    copy.put(thing(3, "old"))
    copy.put(thing(9, "new"))
    copy.replace([thing(4, "kept")], 8)
    assert sorted(copy.values()) == [4, 9]
    assert not copy.put(thing(3, "old"))
    assert not copy.put(thing(8, "old"))


def test_tombstones_are_forgotten_after_a_while(copy: Copy[int], clock: Clock) -> None:
    copy.remove(thing(3))
    clock.now += BURIED_SECONDS
    copy.replace([], 4)
    assert not copy.put(thing(3))
    clock.now += 0.1
    copy.replace([], 4)
    assert copy.put(thing(3))


def test_a_successor_of_the_same_name(copy: Copy[int]) -> None:
    copy.put(thing(2, "a", name="x"))
    copy.put(thing(5, "b", name="x"))
    assert copy.get("n", "x") == 5
    copy.put(thing(4, "a", name="x"))
    assert copy.get("n", "x") == 5, "the late end of the first one is not the newest of the name"
    copy.remove(thing(6, "a", name="x"))
    assert copy.get("n", "x") == 5
    copy.remove(thing(8, "b", name="x"))
    assert copy.get("n", "x") is None
    assert copy.get(None, "x") is None


def test_what_cannot_be_read_is_absent_and_told(copy: Copy[int], told: list[Any]) -> None:
    copy.put(thing(12))
    with capture_logs() as logs:
        assert copy.put(thing(13))
    assert (copy.values(), told) == ([], [(None, 12), (12, None)])
    assert [(entry["event"], entry["error"]) for entry in logs] == [("object cannot be read", "unlucky")]
    assert copy.get("n", "u") is None


def test_what_is_of_no_interest_is_absent(copy: Copy[int], told: list[Any]) -> None:
    assert copy.put(thing(7))
    assert (copy.values(), told) == ([], [])


def test_deafness_shows_in_what_only_a_listing_had(copy: Copy[int], clock: Clock) -> None:
    copy.put(thing(1, "a"))
    copy.replace([thing(1, "a")], 5)
    assert copy.deaf_since() is None
    copy.replace([thing(8, "a"), thing(9, "b")], 10)
    clock.now += 5
    copy.replace([thing(8, "a"), thing(11, "c")], 12)
    assert (copy.deaf_since(), copy.missed(7), copy.missed(8), copy.missed(11)) == (100.0, 0, 1, 2)
    copy.saw(thing(7, "a"))
    assert copy.deaf_since() == 100.0, "an older version is not the one that is missing"
    copy.saw(thing(8, "a"))
    assert copy.deaf_since() == 105.0
    copy.heard_to(11)
    assert copy.deaf_since() is None


@pytest.mark.parametrize(
    "raw", [{}, {"metadata": None}, {"metadata": {"uid": "u"}}, {"metadata": {"resourceVersion": "1"}}]
)
def test_what_has_no_uid_or_version_is_no_object(copy: Copy[int], raw: dict[str, Any]) -> None:
    with pytest.raises(UnreachableError):
        copy.put(raw)


def test_managed_fields_are_left_out() -> None:
    raw = {"metadata": {"name": "a", "managedFields": [1]}, "spec": [1, None, {"b": [True, 0.5]}]}
    assert lean(raw) == {"metadata": {"name": "a"}, "spec": [1, None, {"b": [True, 0.5]}]}
    assert "managedFields" in raw["metadata"]


def test_what_two_objects_both_say_is_there_once() -> None:
    text = '{"metadata": {"some key": "some value"}, "list": ["an entry", {"another key": 1}]}'
    first, second = (lean(json.loads(text)) for _ in range(2))

    def texts(value: object) -> list[str]:
        if isinstance(value, dict):
            return [*value, *(text for part in value.values() for text in texts(part))]
        if isinstance(value, list):
            return [text for part in value for text in texts(part)]
        return [value] if isinstance(value, str) else []

    pairs = list(zip(texts(first), texts(second), strict=True))
    assert len(pairs) == 6
    assert all(one is other for one, other in pairs)


def leaned(*texts: str) -> list[str]:
    """Values of an object as they are kept, read from JSON."""
    found: list[str] = lean(json.loads(json.dumps({"metadata": {}, "list": texts})))["list"]
    return found


def test_what_is_said_once_is_not_kept() -> None:
    """UIDs, versions and times; interned, they would stay for ever with some releases of Python."""
    (kept,) = leaned("uid of an object")
    (other,) = json.loads('["uid of an object"]')
    assert sys.intern(other) is other
    assert leaned("uid of an object")[0] is kept
    leaned(*(f"uid {number}" for number in range(4096)))
    assert leaned("uid of an object")[0] is not kept


def test_long_texts_are_not_kept_to_be_shared() -> None:
    for length, shared in ((256, True), (257, False)):
        assert (leaned("x" * length)[0] is leaned("x" * length)[0]) == shared


def test_what_is_known_is_of_that_very_version(copy: Copy[int]) -> None:
    copy.put(thing(1))
    assert copy.known(thing(1)) == 1
    assert copy.known(thing(2)) is None
    copy.put(thing(2))
    assert copy.known(thing(1)) is None
    copy.remove(thing(2))
    assert copy.known(thing(2)) is None


@given(st.permutations([*((kind, version) for version in range(1, 6) for kind in ("put", "list")), ("remove", 6)]))
def test_in_whatever_order_answers_come_a_deleted_object_stays_away(steps: list[tuple[str, int]]) -> None:
    copy: Copy[int] = Copy("Thing", version_of)
    removed = False
    for kind, version in steps:
        before = copy.values()
        if kind == "put":
            copy.put(thing(version))
        elif kind == "list":
            copy.replace([thing(version)], version)
        else:
            copy.remove(thing(version))
            removed = True
        assert not (removed and copy.values())
        assert removed or copy.values() >= before
    assert copy.values() == []

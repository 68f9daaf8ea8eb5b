"""The store: the newest version of every watched object, by name and by group, whichever way it came."""

from typing import Any

from rowen.kube.listing import Listing
from rowen.operator.world.store import Key, Store

KEY = Key("Pod", "n", "a")


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def pod(version: int, uid: str = "u", group: str = "g", name: str = "a") -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "n",
            "uid": uid,
            "resourceVersion": str(version),
            "labels": {"group": group},
            "managedFields": [1],
        }
    }


def store(clock: Clock | None = None) -> Store:
    return Store(lambda _, manifest: manifest["metadata"]["labels"]["group"].split(), clock or Clock())


def version(cache: Store) -> str | None:
    found = cache.get(KEY)
    return found["metadata"]["resourceVersion"] if found else None


def test_an_older_version_does_not_replace_a_newer_one() -> None:
    cache = store()
    assert cache.put("Pod", pod(5))
    assert not cache.put("Pod", pod(4))
    assert version(cache) == "5"


def test_what_was_deleted_does_not_come_back() -> None:
    cache = store()
    cache.put("Pod", pod(5))
    cache.remove("Pod", pod(7))
    assert not cache.put("Pod", pod(6))
    assert cache.put("Pod", pod(8, "new"))


def test_an_object_is_in_all_its_groups_as_they_are_now() -> None:
    cache = store()
    cache.put("Pod", pod(5, group="g h"))
    cache.put("Pod", pod(3, "v", group="h", name="b"))
    cache.put("Pod", pod(6, group="i h"))
    found = {group: [member["metadata"]["name"] for member in cache.group("Pod", group)] for group in "ghi"}
    assert found == {"g": [], "h": ["a", "b"], "i": ["a"]}


def test_a_late_deletion_spares_the_successor() -> None:
    cache = store()
    cache.put("Pod", pod(8, "new"))
    cache.remove("Pod", pod(7, "old"))
    assert version(cache) == "8"


def test_a_listing_brings_what_was_missed_and_takes_what_is_gone() -> None:
    cache = store()
    cache.put("Pod", pod(5))
    cache.replace("Pod", Listing((), 9))
    assert version(cache) is None
    cache.replace("Pod", Listing((pod(10),), 11))
    assert version(cache) == "10"


def test_a_listing_spares_what_is_newer_than_itself() -> None:
    cache = store()
    cache.put("Pod", pod(12))
    cache.replace("Pod", Listing((), 11))
    assert version(cache) == "12"


def test_kinds_are_apart() -> None:
    cache = store()
    cache.put("Pod", pod(5))
    cache.replace("Service", Listing((), 9))
    assert version(cache) == "5"
    assert cache.get(Key("Service", "n", "a")) is None
    assert cache.all("Service") == []


def test_groups_follow_the_objects() -> None:
    cache = store()
    cache.put("Pod", pod(1, group="x"))
    cache.put("Pod", pod(2, group="y"))
    assert list(cache.group("Pod", "x")) == []
    assert len(list(cache.group("Pod", "y"))) == 1
    cache.remove("Pod", pod(3, group="y"))
    assert list(cache.group("Pod", "y")) == []


def test_a_group_is_in_the_order_of_names() -> None:
    cache = store()
    for number, name in enumerate("cab"):
        cache.put("Pod", pod(number, uid=name, name=name))
    assert [found["metadata"]["name"] for found in cache.group("Pod", "g")] == ["a", "b", "c"]
    cache.replace("Pod", Listing((pod(1, uid="a", name="a"),), 9))
    assert [found["metadata"]["name"] for found in cache.group("Pod", "g")] == ["a"]


def test_deafness_shows_until_the_watch_delivers() -> None:
    clock = Clock()
    cache = store(clock)
    cache.put("Pod", pod(5))
    cache.replace("Pod", Listing((pod(5),), 6))
    assert cache.deaf_since() is None
    clock.now = 130.0
    cache.replace("Pod", Listing((pod(7),), 8))
    clock.now = 160.0
    cache.replace("Pod", Listing((pod(9),), 10))
    cache.replace("Service", Listing((pod(9),), 10))
    assert cache.deaf_since() == 130.0
    cache.saw("Pod", pod(9))
    assert cache.deaf_since() == 160.0
    cache.saw("Service", pod(9))
    assert cache.deaf_since() is None


def test_managed_fields_are_not_kept() -> None:
    cache = store()
    cache.put("Pod", pod(1))
    found = cache.get(KEY)
    assert found is not None
    assert "managedFields" not in found["metadata"]


def test_what_a_listing_shows_and_is_here_is_not_kept_twice() -> None:
    cache = store()
    cache.put("Pod", pod(1))
    found = cache.get(KEY)
    assert found is not None
    assert cache.kept("Pod", pod(1))["metadata"] is found["metadata"]
    newer = cache.kept("Pod", pod(2))["metadata"]
    assert (newer["resourceVersion"], "managedFields" in newer) == ("2", False)

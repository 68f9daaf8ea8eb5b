"""A store that is put back, as from a backup: versions count up from where they were once more."""

import json

import pytest
from aiohttp import web
from kube.follow import EXPIRED, LIST, THINGS, WATCH, begun, kept, until
from kube.odd import Odd, event, hung, listed, status, thing, watched

from rowen.kube import informer as module
from rowen.kube.client import Client
from rowen.kube.errors import RefusedError
from rowen.kube.informer import Informer
from rowen.kube.kinds import CONFIG_MAPS
from rowen.kube.listing import version_of

AHEAD = status(504, "Timeout", "Too large resource version: 40, current: 12", {"Retry-After": "1"})


@pytest.fixture
def few(odd_client: Client) -> Informer[int]:
    return Informer(odd_client, THINGS, version_of, field_selector="f=x")


async def test_few_out_of_many_are_listed_anew_out_of_the_store(odd: Odd, few: Informer[int]) -> None:
    """What is gone goes, what is older comes back, and what was deleted too."""
    odd.say(
        LIST,
        listed(40, thing(33), thing(34, "v"), thing(35, "w")),
        AHEAD,
        listed(12),
        listed(12, thing(5), thing(6, "w")),
    )
    await few.refresh()
    few._take(b'{"type": "DELETED", "object": {"metadata": {"uid": "w", "resourceVersion": "41"}}}')
    assert await few.refresh() == 12
    assert sorted(few.values()) == [5, 6]
    assert [query.get("resourceVersion") for query in odd.queries(LIST)] == ["0", "41", None, None]
    odd.say(LIST, listed(13, thing(13)))
    await few.refresh()
    assert few.values() == [13]
    assert odd.queries(LIST)[-1]["resourceVersion"] == "12"


@pytest.mark.parametrize("version", [40, 41])
async def test_a_server_that_is_late_has_no_store_that_was_put_back(odd: Odd, few: Informer[int], version: int) -> None:
    """It is asked again later: many agents that listed their few out of the store would each have all of it read."""
    odd.say(LIST, listed(40, thing(33)), AHEAD, listed(version), listed(42, thing(41)))
    await few.refresh()
    with pytest.raises(RefusedError, match="Too large resource version"):
        await few.refresh()
    assert odd.queries(LIST)[-1] == {"limit": "1"}
    assert (few.values(), few.newest()) == ([33], 40)
    assert not few.put(thing(32))
    assert await few.refresh() == 42
    assert odd.queries(LIST)[-1]["resourceVersion"] == "40"
    assert few.values() == [41]


async def test_what_the_watch_tells_during_the_list_is_no_sign_that_the_store_was_put_back(
    odd: Odd, few: Informer[int]
) -> None:
    async def late(request: web.Request) -> web.StreamResponse:
        few._take(json.dumps(event("MODIFIED", 50)).encode())
        return await listed(45, thing(44))(request)

    odd.say(LIST, listed(40, thing(33)), AHEAD, listed(39), late)
    await few.refresh()
    await few.refresh()
    assert few.values() == [50]


async def test_another_timeout_says_nothing_of_the_store(odd: Odd, few: Informer[int]) -> None:
    odd.say(LIST, status(504, "Timeout", "etcd is slow"))
    with pytest.raises(RefusedError, match="etcd is slow"):
        await few.refresh()
    assert len(odd.queries(LIST)) == 1


@pytest.mark.parametrize("gone", [*EXPIRED, AHEAD])
async def test_a_watch_that_lies_ahead_of_the_store_begins_again_with_a_list(
    odd: Odd, few: Informer[int], monkeypatch: pytest.MonkeyPatch, gone: object
) -> None:
    monkeypatch.setattr(module, "pause_seconds", lambda *_, **__: 0.0)
    odd.say(LIST, listed(40, thing(33)), AHEAD, listed(12), listed(12, thing(5)))
    odd.say(WATCH, gone, watched(event("MODIFIED", 13), then="hang"))  # type: ignore[arg-type]
    async with kept(few):
        await until(lambda: few.values() == [13])
        assert few.follows()
    assert begun(odd) == ["40", "12"]


async def test_who_knows_that_it_was_put_back_follows_nothing_before_the_next_list(
    odd: Odd, few: Informer[int]
) -> None:
    """A watch from a version ahead would be open, and tell nothing."""
    odd.say(LIST, listed(40, thing(33)), listed(12, thing(5)), hung())
    odd.say(WATCH, watched(event("MODIFIED", 41), then="hang"))
    async with kept(few):
        await until(lambda: few.values() == [41])
        assert few.follows()
        few.begin_anew()
        assert not few.follows()
        assert few.silent_seconds() == float("inf")
        await few.refresh()
        assert few.values() == [5]
        assert not few.follows()
    assert odd.queries(LIST)[1]["resourceVersion"] == "0"


async def test_a_list_under_way_may_tell_what_was_before_the_store_was_put_back(
    odd: Odd, few: Informer[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken for the list that is due, it would have the next watch begin where nothing comes for long."""
    monkeypatch.setattr(module, "pause_seconds", lambda *_, **__: 0.0)

    async def meanwhile(request: web.Request) -> web.StreamResponse:
        few.begin_anew()
        return await listed(40, thing(33))(request)

    odd.say(LIST, meanwhile, listed(12, thing(5)))
    odd.say(WATCH, hung())
    async with kept(few):
        await until(lambda: len(begun(odd)) == 1)
        assert few.values() == [5]
    assert begun(odd) == ["12"]
    assert [query["resourceVersion"] for query in odd.queries(LIST)] == ["0", "0"]


async def test_a_real_api_server_is_listed_anew(kube: Client, namespace: str) -> None:
    """What it says of a version that it has not come to is in its own words."""
    informer = Informer(kube, CONFIG_MAPS, version_of, namespace=namespace, field_selector="metadata.name=none")
    informer._newest = 10**12
    assert await informer.refresh() < 10**12
    assert informer._newest < 10**12

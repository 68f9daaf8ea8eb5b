"""List and watch, on good and bad days."""

import asyncio
from typing import Any

import pytest
from kube.follow import EXPIRED, LIST, THINGS, WATCH, begun, kept, until
from kube.odd import Odd, body, event, hung, listed, status, streamed, thing, watched
from structlog.testing import capture_logs

from rowen.kube import informer as module
from rowen.kube.client import Client
from rowen.kube.errors import StaleListError
from rowen.kube.informer import Informer
from rowen.kube.kinds import CONFIG_MAPS
from rowen.kube.listing import version_of
from rowen.kube.objects import apply, delete
from rowen.kube.resource import Resource


async def test_it_follows_a_real_api_server(kube: Client, namespace: str) -> None:
    def data(raw: dict[str, Any]) -> dict[str, str] | None:
        return raw["data"] if raw["metadata"]["namespace"] == namespace else None

    async def write(name: str, value: str) -> dict[str, Any]:
        meta = {"name": name, "namespace": namespace}
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"v": value}}
        return await apply(kube, CONFIG_MAPS, manifest, manager="test")

    informer = Informer(kube, CONFIG_MAPS, data)
    await write("a", "1")
    async with kept(informer):
        await until(lambda: informer.values() == [{"v": "1"}])
        await write("b", "2")
        answer = await write("a", "3")
        await until(lambda: informer.get(namespace, "a") == {"v": "3"} and len(informer.values()) == 2)
        await delete(kube, CONFIG_MAPS, namespace, "a")
        await until(lambda: informer.values() == [{"v": "2"}])
        assert not informer.put(answer)
        await informer.refresh()
        assert informer.values() == [{"v": "2"}]
        await informer.probe()


async def test_a_watch_goes_on_where_the_last_one_was(odd: Odd, informer: Informer[int]) -> None:
    odd.say(LIST, listed(10, thing(3)))
    odd.say(
        WATCH,
        watched(event("ADDED", 20), event("MODIFIED", 15)),
        watched({"type": "BOOKMARK", "object": thing(30)}),
        hung(),
    )
    async with kept(informer):
        await until(lambda: len(begun(odd)) == 3)
    assert begun(odd) == ["10", "20", "30"]
    assert len(odd.queries(LIST)) == 1
    assert informer.values() == [20]
    assert {query["labelSelector"] for _, query in odd.asked} == {"a=b"}


@pytest.mark.parametrize("gone", EXPIRED)
async def test_a_version_that_is_too_old_is_listed_anew(odd: Odd, informer: Informer[int], gone: Any) -> None:
    odd.say(LIST, listed(10, thing(3)), listed(40, thing(33)))
    odd.say(WATCH, gone, hung())
    async with kept(informer):
        await until(lambda: len(begun(odd)) == 2)
    assert begun(odd) == ["10", "40"]
    assert informer.values() == [33]


@pytest.mark.parametrize("gone", EXPIRED)
async def test_what_cannot_be_followed_is_not_known_before_the_next_list(
    odd: Odd, informer: Informer[int], gone: Any
) -> None:
    odd.say(LIST, listed(10, thing(3)), hung())
    odd.say(WATCH, gone)
    async with kept(informer):
        await until(lambda: len(odd.queries(LIST)) == 2)
        assert informer.silent_seconds() == float("inf")


@pytest.mark.parametrize(
    "gone", [*EXPIRED, watched({"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "broken"}})]
)
async def test_what_cannot_be_followed_again_and_again_is_listed_ever_more_seldom(
    odd: Odd, informer: Informer[int], monkeypatch: pytest.MonkeyPatch, gone: Any
) -> None:
    failures: list[int] = []

    def pause(_error: Exception, count: int, **_: float) -> float:
        failures.append(count)
        return 0.0

    monkeypatch.setattr(module, "pause_seconds", pause)
    odd.say(LIST, listed(10))
    odd.say(WATCH, gone)
    async with kept(informer):
        await until(lambda: len(failures) >= 4)
    assert failures[:4] == [1, 2, 3, 4]
    assert len(odd.queries(LIST)) >= 4


async def test_one_that_runs_again_lists_anew(odd: Odd, informer: Informer[int]) -> None:
    odd.say(LIST, listed(10, thing(3)), listed(20, thing(15)))
    odd.say(WATCH, hung())
    async with kept(informer):
        await until(lambda: len(begun(odd)) == 1)
    async with kept(informer):
        await until(lambda: len(begun(odd)) == 2)
    assert begun(odd) == ["10", "20"]
    assert informer.values() == [15]


@pytest.mark.parametrize(
    "broken",
    [status(429, "TooManyRequests", "later"), status(503, "ServiceUnavailable", "no"), body("<html>", 502, "text/html"),
     streamed(b'{"type": "ADDED"', then="cut"), streamed(b"<html>\n"), streamed(b'{"type": "ADDED"}\n'),
     streamed(b'{"type": "ADDED", "object": {}}\n'), streamed(b"[]\n"), streamed(b'{"type": "ADDED", "obj'),
     streamed(b'{"a":' * 3000 + b"1" + b"}" * 3000 + b"\n")],
)  # fmt: skip
async def test_a_watch_that_breaks_is_taken_up_where_it_was(odd: Odd, informer: Informer[int], broken: Any) -> None:
    odd.say(LIST, listed(10))
    odd.say(WATCH, watched(event("ADDED", 11)), broken, watched(event("MODIFIED", 12)), hung())
    async with kept(informer):
        await until(lambda: len(begun(odd)) == 4)
    assert begun(odd) == ["10", "11", "11", "12"]
    assert len(odd.queries(LIST)) == 1
    assert informer.values() == [12]


async def test_a_watch_on_a_dead_connection_is_given_up(
    odd: Odd, informer: Informer[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SILENCE_SECONDS", 0.2)
    odd.say(LIST, listed(10))
    odd.say(WATCH, watched(event("ADDED", 11), then="hang"), hung(), watched(event("MODIFIED", 12), then="hang"))
    async with kept(informer):
        await until(lambda: informer.values() == [12])
    assert begun(odd)[:3] == ["10", "11", "11"]


async def test_a_watch_that_delivers_bookmarks_alone_is_not_relied_on(
    odd: Odd, informer: Informer[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that it is at 30 and has never told of the change at 20."""
    monkeypatch.setattr(module, "RESYNC_SECONDS", 0.05)
    monkeypatch.setattr(module, "WATCH_SECONDS", 0)
    odd.say(LIST, listed(10, thing(3)), listed(35, thing(20)), listed(36, thing(20)), listed(37, thing(20)))
    odd.say(WATCH, watched({"type": "BOOKMARK", "object": thing(30)}))
    with capture_logs() as logs:
        async with kept(informer):
            await until(lambda: len(odd.queries(LIST)) >= 4)
    assert informer.values() == [20]
    assert sum("not delivered" in entry["event"] for entry in logs) == 1


async def test_what_a_listing_beside_the_watch_has_shown_is_no_deafness(odd: Odd, informer: Informer[int]) -> None:
    odd.say(LIST, listed(10), listed(12, thing(11)))
    odd.say(WATCH, hung())
    async with kept(informer):
        await until(lambda: len(begun(odd)) == 1)
        await informer.refresh()
        assert informer.values() == [11]
    assert not informer._deaf


async def test_a_listing_older_than_what_was_seen_is_refused(odd: Odd, informer: Informer[int]) -> None:
    odd.say(LIST, listed(10, thing(3)), listed(9), listed(10))
    await informer.refresh()
    with pytest.raises(StaleListError, match="9, 10 has been seen"):
        await informer.refresh()
    assert informer.values() == [3]
    await informer.refresh()
    assert informer.values() == []


async def test_a_listing_that_lands_after_a_deletion_does_not_bring_it_back(odd: Odd, informer: Informer[int]) -> None:
    go = asyncio.Event()

    async def late(request: Any) -> Any:
        await go.wait()
        return await listed(10, thing(3))(request)

    odd.say(LIST, listed(10, thing(3)), late, listed(12))
    await informer.refresh()
    slow = asyncio.create_task(informer.refresh())
    await until(lambda: len(odd.queries(LIST)) == 2)
    informer._take(b'{"type": "DELETED", "object": {"metadata": {"uid": "u", "resourceVersion": "11"}}}')
    assert informer.values() == []
    go.set()
    await slow
    assert informer.values() == []


async def test_few_out_of_many_are_listed_out_of_memory_and_never_older_than_was_seen(
    odd: Odd, odd_client: Client
) -> None:
    """A limit, or no version, may make the API server read all objects of the kind out of its store."""
    informer = Informer(odd_client, THINGS, version_of, field_selector="f=x")
    odd.say(LIST, listed(10, thing(3)), listed(40, thing(33)))
    odd.say(WATCH, watched(event("MODIFIED", 20)), EXPIRED[0], hung())
    async with kept(informer):
        await until(lambda: len(begun(odd)) == 3)
    chosen = {"labelSelector": "a=b", "fieldSelector": "f=x"}
    assert odd.queries(LIST) == [chosen | {"resourceVersion": "0"}, chosen | {"resourceVersion": "20"}]
    assert {query["fieldSelector"] for query in odd.queries(WATCH)} == {"f=x"}
    assert informer.values() == [33]


async def test_a_kind_that_may_not_be_listed_is_asked_for_ever_more_seldom(odd: Odd, informer: Informer[int]) -> None:
    odd.say(LIST, *[status(403, "Forbidden", "no right")] * 4, listed(10, thing(3)))
    odd.say(WATCH, hung())
    with capture_logs() as logs:
        async with kept(informer):
            assert informer.silent_seconds() == float("inf")
            await until(lambda: informer.values() == [3])
            assert informer.silent_seconds() < 60
    told = [entry for entry in logs if entry["event"] == "watch failed"]
    assert [entry["error"] for entry in told] == ["no right"] * 4
    assert informer.silent_seconds() == float("inf"), "it is not kept any more"


async def test_one_kind_that_is_refused_does_not_disturb_another(odd: Odd, odd_client: Client) -> None:
    other = Informer(odd_client, Resource("Other", "v1", "others"), version_of)
    refused = Informer(odd_client, THINGS, version_of)
    odd.say(LIST, status(429, "TooManyRequests", "later"), status(403, "Forbidden", "no"))
    odd.say("/api/v1/others", listed(10, thing(3)))
    odd.say("watch /api/v1/others", watched(event("MODIFIED", 11), then="hang"))
    async with kept(refused), kept(other):
        await until(lambda: len(odd.queries(LIST)) >= 4 and other.values() == [11])
    assert len(odd.queries("watch /api/v1/others")) == 1


NO_RIGHT = status(403, "Forbidden", 'things is forbidden: User "x" cannot list resource "things" in API group ""')


async def test_a_right_that_is_missing_is_told_until_it_is_there(
    odd: Odd, informer: Informer[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def pause(*_: Any, **__: Any) -> float:
        seen.append(informer.lacks_right())
        return 0.0

    monkeypatch.setattr(module, "pause_seconds", pause)
    quota, busy = status(403, "Forbidden", "exceeded quota"), status(503, "ServiceUnavailable", "no")
    odd.say(LIST, quota, NO_RIGHT, busy, quota, NO_RIGHT, listed(10, thing(3)))
    odd.say(WATCH, watched(event("ADDED", 11, "v"), then="hang"))
    assert not informer.lacks_right()
    async with kept(informer):
        await until(lambda: 11 in informer.values())
    assert seen == [False, True, True, False, True]
    assert not informer.lacks_right()

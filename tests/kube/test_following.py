"""Whether changes are told as they come."""

from typing import Any

import pytest
from kube.follow import EXPIRED, LIST, WATCH, kept, until
from kube.odd import Odd, event, hung, listed, status, streamed, thing, watched

from rowen.kube import informer as module
from rowen.kube.informer import Informer


async def test_it_follows_while_a_watch_is_open(odd: Odd, informer: Informer[int]) -> None:
    odd.say(LIST, listed(10), hung())
    odd.say(WATCH, watched(event("ADDED", 11), then="hang"))
    assert not informer.follows()
    await informer.refresh()
    assert not informer.follows(), "a list alone tells of no change"
    odd.say(LIST, listed(10), hung())
    async with kept(informer):
        await until(lambda: informer.values() == [11])
        assert informer.follows()
    assert not informer.follows()


@pytest.mark.parametrize("gone", [*EXPIRED, status(503, "ServiceUnavailable", "no"), streamed(b"{", then="cut")])
async def test_it_does_not_follow_after_a_failure_until_the_next_watch_is_open(
    odd: Odd, informer: Informer[int], monkeypatch: pytest.MonkeyPatch, gone: Any
) -> None:
    seen: list[bool] = []

    def pause(*_: Any, **__: Any) -> float:
        seen.append(informer.follows())
        return 0.0

    monkeypatch.setattr(module, "pause_seconds", pause)
    odd.say(LIST, listed(10), listed(20))
    odd.say(WATCH, watched(event("ADDED", 11)), gone, watched(event("ADDED", 30, "v"), then="hang"))
    async with kept(informer):
        await until(lambda: 30 in informer.values())
        assert informer.follows()
    assert seen == [False]


async def test_it_does_not_follow_a_watch_that_is_silent_for_too_long_or_deaf(
    odd: Odd, informer: Informer[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    odd.say(LIST, listed(10), listed(11, thing(11)))
    odd.say(WATCH, watched(event("ADDED", 11), then="hang"))
    async with kept(informer):
        await until(lambda: informer.values() == [11])
        with monkeypatch.context() as patch:
            patch.setattr(informer, "_told", informer._told - 46.0)
            await informer.refresh()
            assert informer.silent_seconds() < 46.0
            assert not informer.follows(), "a list renews no watch"
        assert informer.follows()
        monkeypatch.setattr(informer, "_deaf", True)
        assert not informer.follows()


async def test_it_does_not_follow_a_watch_that_keeps_to_itself_what_lists_have_shown(
    odd: Odd, informer: Informer[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection lives, and only what is asked beside it tells of the change."""
    odd.say(LIST, listed(10), listed(12, thing(11)), listed(13, thing(11)), listed(14, thing(11)))
    odd.say(WATCH, watched({"type": "BOOKMARK", "object": thing(9)}, then="hang"))
    async with kept(informer):
        await until(informer.follows)
        await informer.refresh()
        assert informer.follows(), "it may be on its way"
        monkeypatch.setattr(module, "_LATE_SECONDS", 0.0)
        assert not informer.follows()
        informer._take(b'{"type": "ADDED", "object": {"metadata": {"uid": "u", "resourceVersion": "11"}}}')
        assert informer.follows()


async def test_what_a_list_has_shown_is_late_only_while_a_watch_could_have_told(
    odd: Odd, informer: Informer[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LATE_SECONDS", 0.0)
    odd.say(LIST, listed(10), listed(12, thing(11)), listed(13, thing(11)))
    odd.say(WATCH, EXPIRED[0], hung())
    await informer.refresh()
    await informer.refresh()
    async with kept(informer):
        await until(lambda: len(odd.queries(WATCH)) == 2)
        assert not informer._deaf


async def test_after_a_watch_that_was_late_the_next_list_comes_early(
    odd: Odd, informer: Informer[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a watch without bookmarks no version tells how far it is."""
    odd.say(LIST, listed(10), listed(12, thing(11)), listed(13, thing(11)))
    odd.say(WATCH, watched({"type": "BOOKMARK", "object": thing(9)}, then="hang"))
    async with kept(informer):
        await until(informer.follows)
        await informer.refresh()
        monkeypatch.setattr(module, "_LATE_SECONDS", 0.0)
        monkeypatch.setattr(module, "RESYNC_SECONDS", 0.0)
        await informer._catch_up()
        assert informer._resync_seconds() == module.WATCH_SECONDS

"""Who somebody is and what they may read, asked of a real API server."""

import asyncio
from typing import Any

import pytest
from accounts import account, allow, rule, token
from apiserver import ApiServer
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from rowen.kube.client import Client
from rowen.kube.errors import KubeError, UnreachableError
from rowen.scheduler.serve import reviews
from rowen.scheduler.serve.bucket import Bucket
from rowen.scheduler.serve.reviews import (
    MOST_WAITING,
    REMEMBERED_SECONDS,
    RIGHTS_AT_ONCE,
    TOKENS_AT_ONCE,
    TOKENS_PER_SECOND,
    Caller,
    Reviews,
    Right,
    UnansweredError,
)

READ = rule("rowen.dev", ["offlinejobs"], ["get", "list"])


class Counting:
    """A client that counts, and that can be cut off."""

    def __init__(self, kube: Client) -> None:
        self._kube, self.asked, self.failure = kube, 0, None
        self.most = self._now = 0

    failure: KubeError | None

    async def call(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        self.asked += 1
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            if self.failure is not None:
                raise self.failure
            return await self._kube.call(*arguments, **named)
        finally:
            self._now -= 1


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def counting(kube: Client) -> Counting:
    return Counting(kube)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def asked(counting: Counting, clock: Clock) -> Reviews:
    return Reviews(counting, clock)  # type: ignore[arg-type]


async def test_a_service_account_is_known_by_its_token(asked: Reviews, kube: Client, namespace: str) -> None:
    await account(kube, namespace, "ann")
    found = await asked.caller(await token(kube, namespace, "ann"))
    assert found is not None
    assert found.user == f"system:serviceaccount:{namespace}:ann"
    assert {f"system:serviceaccounts:{namespace}", "system:authenticated"} <= set(found.groups)
    assert found.uid


async def test_tokens_of_nobody_and_for_somebody_else_are_refused(asked: Reviews, kube: Client, namespace: str) -> None:
    await account(kube, namespace, "ann")
    assert await asked.caller("made-up") is None
    assert await asked.caller(await token(kube, namespace, "ann", audiences=["another"])) is None


async def test_rights_are_those_of_rbac(asked: Reviews, kube: Client, namespace: str) -> None:
    await account(kube, namespace, "ann")
    await allow(kube, namespace, "ann", READ)
    ann = await asked.caller(await token(kube, namespace, "ann"))
    assert ann is not None
    assert await asked.allows(ann, Right("get", "offlinejobs", namespace, "j"))
    assert await asked.allows(ann, Right("list", "offlinejobs", namespace))
    for right in (
        Right("list", "offlinejobs"), Right("list", "offlinejobs", "default"), Right("get", "nodeharvests"),
        Right("delete", "offlinejobs", namespace),
    ):  # fmt: skip
        assert not await asked.allows(ann, right)


async def test_an_answer_is_asked_for_once_in_a_while(
    asked: Reviews, counting: Counting, clock: Clock, kube: Client, namespace: str
) -> None:
    """A right that is taken away ends with the answer."""
    await account(kube, namespace, "ann")
    await allow(kube, namespace, "ann", READ)
    given, right = await token(kube, namespace, "ann"), Right("list", "offlinejobs", namespace)
    for _ in range(3):
        ann = await asked.caller(given)
        assert ann is not None
        assert await asked.allows(ann, right)
    assert counting.asked == 2
    await allow(kube, namespace, "ann")
    clock.now = REMEMBERED_SECONDS
    assert await asked.caller(given) == ann
    for _ in range(100):
        if not await asked.allows(ann, right):
            return
        clock.now += REMEMBERED_SECONDS
        await asyncio.sleep(0.1)
    pytest.fail("the right outlived its end")


async def test_without_an_answer_nobody_is_let_in_and_no_token_is_logged(asked: Reviews, counting: Counting) -> None:
    counting.failure = UnreachableError("the token was secret-token")
    with capture_logs() as logs:
        for _ in range(2):
            with pytest.raises(UnansweredError):
                await asked.caller("secret-token")
        with pytest.raises(UnansweredError):
            await asked.allows(Caller("ann"), Right("list", "offlinejobs"))
    assert counting.asked == 3, "that there was no answer is not remembered"
    assert len(logs) == 3
    assert "secret-token" not in str(logs)


async def test_who_may_not_review_says_so(api_server: ApiServer) -> None:
    async with await api_server.open(api_server.kubeconfig_for("eve")) as client:
        with capture_logs() as logs, pytest.raises(UnansweredError):
            await Reviews(client).caller("made-up")
    assert logs[0]["error"] == 403


async def test_made_up_tokens_are_no_flood(asked: Reviews, counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    found = await asyncio.gather(*(asked.caller(f"made-up-{number}") for number in range(20)))
    assert set(found) == {None}
    assert counting.most <= reviews._AT_ONCE


class Answering:
    """Knows `ann`'s token, denies every right, and counts; no answer comes before it is `free`."""

    def __init__(self) -> None:
        self.asked, self.free = 0, asyncio.Event()
        self.free.set()

    async def call(self, *_: Any, body: dict[str, Any], **__: Any) -> dict[str, Any]:
        self.asked += 1
        await self.free.wait()
        known = body["spec"].get("token") == "ann"
        return {"status": {"authenticated": True, "user": {"username": "ann"}} if known else {}}


async def refused(asked: Reviews, tokens: list[str]) -> int:
    """How many of the tokens, one after another, the server was not asked about."""
    number = 0
    for token_ in tokens:
        try:
            await asked.caller(token_)
        except UnansweredError:
            number += 1
    return number


async def test_ever_new_tokens_take_so_many_reviews_a_second_and_hold_up_nobody_known(clock: Clock) -> None:
    server = Answering()
    asked = Reviews(server, clock)  # type: ignore[arg-type]
    assert await asked.caller("ann") is not None
    assert await refused(asked, [f"first-{number}" for number in range(150)]) == 150 - (TOKENS_AT_ONCE - 1)
    assert server.asked == TOKENS_AT_ONCE
    clock.now = 2.0
    assert await refused(asked, [f"then-{number}" for number in range(40)]) == 40 - 2 * TOKENS_PER_SECOND
    clock.now = REMEMBERED_SECONDS
    assert await refused(asked, [f"last-{number}" for number in range(150)]) == 150 - TOKENS_AT_ONCE
    before = server.asked
    assert await asked.caller("ann") == Caller("ann")
    assert server.asked == before + 1


async def test_ever_new_names_take_a_bounded_number_of_reviews(clock: Clock) -> None:
    server = Answering()
    asked = Reviews(server, clock)  # type: ignore[arg-type]
    for number in range(RIGHTS_AT_ONCE):
        assert not await asked.allows(Caller("ann"), Right("get", "offlinejobs", "a", f"j{number}"))
    with pytest.raises(UnansweredError, match="too many rights"):
        await asked.allows(Caller("ann"), Right("get", "offlinejobs", "a", "one-more"))
    assert server.asked == RIGHTS_AT_ONCE


async def test_the_queue_is_bounded_and_drains(clock: Clock) -> None:
    server = Answering()
    server.free.clear()
    asked = Reviews(server, clock)  # type: ignore[arg-type]
    rights = [Right("get", "offlinejobs", "a", f"j{number}") for number in range(MOST_WAITING)]
    waiting = asyncio.gather(*(asked.allows(Caller("ann"), right) for right in rights))
    await asyncio.sleep(0)
    with pytest.raises(UnansweredError, match="too many callers wait"):
        await asyncio.wait_for(asked.caller("ann"), 20)
    server.free.set()
    assert not any(await waiting)
    assert await asked.caller("ann") is not None


@given(st.lists(st.floats(0.0, 5.0), max_size=60))
def test_a_bucket_gives_its_burst_and_its_rate_and_no_more(pauses: list[float]) -> None:
    clock, taken = Clock(), 0
    bucket = Bucket(2.0, 5, clock)
    for pause in pauses:
        clock.now += pause
        taken += bucket.take()
        assert taken <= 5 + 2.0 * clock.now + 1e-6
    clock.now += 10.0
    assert [bucket.take() for _ in range(6)] == [True] * 5 + [False]


async def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        async def call(self, *_: Any, **__: Any) -> dict[str, Any]:
            await asyncio.Event().wait()
            raise AssertionError

    monkeypatch.setattr(reviews, "ANSWER_SECONDS", 0.05)
    with pytest.raises(UnansweredError):
        await asyncio.wait_for(Reviews(Silent()).caller("t"), 20)  # type: ignore[arg-type]

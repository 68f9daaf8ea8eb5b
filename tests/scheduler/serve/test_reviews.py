"""Who somebody is and what they may read, asked of a real API server."""

import asyncio
from typing import Any

import pytest
from accounts import account, allow, rule, token
from apiserver import ApiServer
from structlog.testing import capture_logs

from rowen.kube.client import Client
from rowen.kube.errors import KubeError, UnreachableError
from rowen.scheduler.serve import reviews
from rowen.scheduler.serve.reviews import REMEMBERED_SECONDS, Caller, Reviews, Right, UnansweredError

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


async def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        async def call(self, *_: Any, **__: Any) -> dict[str, Any]:
            await asyncio.Event().wait()
            raise AssertionError

    monkeypatch.setattr(reviews, "ANSWER_SECONDS", 0.05)
    with pytest.raises(UnansweredError):
        await asyncio.wait_for(Reviews(Silent()).caller("t"), 20)  # type: ignore[arg-type]

"""How much is asked, kept and computed at a time."""

import asyncio

import pytest
from fastapi.testclient import TestClient
from scheduler.builders import node, world
from scheduler.serve.test_server import TEMPLATE, Everything, Source, client

from rowen.scheduler.serve import body_limit, turns
from rowen.scheduler.serve.body_limit import MOST_BYTES, BodyLimit, Message
from rowen.scheduler.serve.memo import Memo
from rowen.scheduler.serve.messages import MOST_ADDED
from rowen.scheduler.serve.server import create_app
from rowen.scheduler.serve.turns import BusyError, Turns


def test_an_answer_holds_for_its_time() -> None:
    now = 0.0
    memo: Memo[str, int] = Memo(2, 10.0, lambda: now)
    memo.put("a", 1)
    now = 9.9
    assert memo.get("a") == 1
    now = 10.0
    assert memo.get("a") is None


def test_of_too_many_answers_the_oldest_goes() -> None:
    memo: Memo[str, int] = Memo(2, 10.0, lambda: 0.0)
    for name in "aba":
        memo.put(name, ord(name))
    memo.put("c", 3)
    assert [memo.get(name) for name in "abc"] == [ord("a"), None, 3]


def test_a_body_that_is_too_large_is_not_read() -> None:
    found = client(Source(world(node("a"))))
    body = b'{"spec": "' + b"x" * MOST_BYTES + b'"}'
    reply = found.post("/v1/predict", content=body, headers={"Content-Type": "application/json"})
    assert (reply.status_code, reply.json()["detail"]) == (413, f"the body is larger than {MOST_BYTES} bytes")
    assert found.post("/v1/predict", json={"spec": TEMPLATE}).status_code == 200


async def test_a_body_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_limit, "SECONDS", 0.05)
    sent: list[Message] = []
    told = [{"type": "http.request", "body": b"{", "more_body": True}]

    async def receive() -> Message:
        return told.pop() if told else await asyncio.Event().wait()  # type: ignore[return-value]

    async def send(message: Message) -> None:
        sent.append(message)

    app = BodyLimit(create_app(Source(None), Everything()))
    await asyncio.wait_for(
        app({"type": "http", "method": "POST", "path": "/v1/predict", "headers": []}, receive, send), 20
    )
    assert sent[0]["status"] == 408


def test_too_many_jobs_in_a_question_are_refused() -> None:
    found = client(Source(world(node("a"))))
    for number, status in ((MOST_ADDED, 200), (MOST_ADDED + 1, 422)):
        assert found.post("/v1/what-if", json={"add": [{"spec": TEMPLATE}] * number}).status_code == status


async def test_questions_take_turns_and_the_queue_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MOST_WAITING", 1)
    queue, inside, leave = Turns(), asyncio.Event(), asyncio.Event()
    order: list[str] = []

    async def ask(name: str) -> None:
        async with queue.take():
            order.append(name)
            inside.set()
            await leave.wait()

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(ask("first"))
        await inside.wait()
        group.create_task(ask("second"))
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await ask("third")
        assert order == ["first"]
        leave.set()
    assert order == ["first", "second"]


async def test_who_waits_too_long_is_turned_away_and_blocks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "WAIT_SECONDS", 0.05)
    queue = Turns()
    async with queue.take():
        with pytest.raises(BusyError):
            async with queue.take():
                pass
    monkeypatch.setattr(turns, "WAIT_SECONDS", 20.0)
    async with asyncio.timeout(20), queue.take():
        pass


def test_too_many_questions_are_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MOST_WAITING", 0)
    app = create_app(Source(world(node("a"))), Everything())
    found = TestClient(app, headers={"Authorization": "Bearer x"})
    reply = found.post("/v1/what-if", json={})
    assert (reply.status_code, reply.headers["Retry-After"]) == (503, "5")
    assert "too many questions" in reply.json()["detail"]

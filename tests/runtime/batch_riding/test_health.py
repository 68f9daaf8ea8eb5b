"""What is remembered of an engine that was away, and which one it is."""

import asyncio

import httpx
import pytest
from runtime.batch_riding.engine import Engine

from rowen.runtime.batch.riding import health
from rowen.runtime.batch.riding.health import Health
from rowen.runtime.failure import WorkerError


def test_an_engine_that_has_come_back_was_not_ended_by_the_rows_of_before() -> None:
    engine = Engine()

    async def lost_again() -> None:
        async with httpx.AsyncClient(base_url=engine.url, trust_env=False) as client:
            watched = Health(client, None, lost_seconds=0.1)
            watched.be_lost(working=True)
            await watched.come()
            engine.found = {"/health": 503}
            await watched.come()

    with pytest.raises(WorkerError) as raised:
        asyncio.run(lost_again())
    engine.end()
    assert raised.value.reason == "RideLost"


def test_an_engine_that_has_failed_at_a_row_and_stays_away_was_ended_by_rows() -> None:
    engine = Engine()
    engine.found = {"/health": 503}

    async def lost() -> None:
        async with httpx.AsyncClient(base_url=engine.url, trust_env=False) as client:
            watched = Health(client, None, lost_seconds=0.1)
            watched.is_failing = True
            await watched.come()

    with pytest.raises(WorkerError) as raised:
        asyncio.run(lost())
    engine.end()
    assert raised.value.reason == "RideBroken"


def test_one_that_is_lost_worked_on_rows_where_it_had_failed_at_one() -> None:
    engine = Engine()

    async def found() -> list[bool]:
        async with httpx.AsyncClient(base_url=engine.url, trust_env=False) as client:
            watched, worked = Health(client, None), []
            for is_failing, working in ((False, False), (False, True), (True, False)):
                watched.is_failing = is_failing
                watched.be_lost(working=working)
                worked.append(watched.was_working)
                await watched.come_back()
                assert (watched.is_lost, watched.was_working, watched.is_failing) == (False, False, False)
            assert watched.losses == 3
            return worked

    worked = asyncio.run(found())
    engine.end()
    assert worked == [False, True, True]


def test_that_it_answers_for_its_health_says_nothing_of_the_row_at_which_it_failed() -> None:
    engine = Engine()

    async def failing() -> list[bool]:
        async with httpx.AsyncClient(base_url=engine.url, trust_env=False) as client:
            watched, found = Health(client, None), []
            watched.is_failing = True
            await watched.come()
            found.append(watched.is_failing)
            watched.be_lost(working=False)
            await watched.come()
            return [*found, watched.is_failing]

    failing_then = asyncio.run(failing())
    engine.end()
    assert failing_then == [True, False]


@pytest.mark.parametrize(
    ("told", "said", "good"),
    [
        (None, [None, "chat-b"], [True, True]),
        ("chat-a", ["chat-a", "chat-b", "chat-a"], [True, False, True]),
        # One with a plugin of before; another's, or one's of a later pod, is known by what it says.
        ("chat-a", [None, None, "chat-b"], [True, True, False]),
        ("chat-a", ["chat-a", None], [True, False]),
    ],
)
def test_it_is_the_one_that_was_named(told: str | None, said: list[str | None], good: list[bool]) -> None:
    engine = Engine()

    async def found() -> list[bool]:
        async with httpx.AsyncClient(base_url=engine.url, trust_env=False) as client:
            watched, answers = Health(client, told), []
            for engine.pod in said:
                answers.append(await watched.is_good())
            return answers

    answers = asyncio.run(found())
    engine.end()
    assert answers == good


def test_one_that_refuses_connections_twice_is_closed_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_REFUSED_SECONDS", 0.0)
    engine = Engine()

    async def found() -> list[bool]:
        async with httpx.AsyncClient(base_url=engine.url, trust_env=False) as client:
            watched, closed = Health(client, None), []
            engine.end()
            for _ in range(2):
                await watched.is_good()
                closed.append(watched.closed.is_set())
            assert watched.is_lost
            engine.begin()
            await watched.is_good()
            return [*closed, watched.closed.is_set()]

    closed = asyncio.run(found())
    engine.end()
    assert closed == [False, True, False]


def test_an_answer_of_before_it_was_lost_says_nothing_of_it_since() -> None:
    asked = 0

    async def found() -> tuple[bool, bool, bool]:
        def answer(_: httpx.Request) -> httpx.Response:
            nonlocal asked
            asked += 1
            if asked == 1:
                # A row was on its way when the engine went, and its connection broke before this answer was read.
                watched.be_lost(working=True)
                return httpx.Response(200)
            return httpx.Response(503)

        transport = httpx.MockTransport(answer)
        async with httpx.AsyncClient(base_url="http://engine", transport=transport) as client:
            watched = Health(client, None, lost_seconds=0.1)
            with pytest.raises(WorkerError) as raised:
                await watched.come()
            return watched.is_lost, watched.was_working, raised.value.reason == "RideBroken"

    assert asyncio.run(found()) == (True, True, True)
    assert asked > 1

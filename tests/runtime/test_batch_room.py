"""How many requests a batch has under way."""

import asyncio
from typing import Any

import pytest

from rowen.runtime.batch.room import Room, requests_in


@pytest.mark.parametrize(
    ("body", "requests"),
    [
        ({"prompt": "one"}, 1),
        ({"prompt": "one", "n": 64}, 64),
        ({"prompt": ["one", "two", "three"]}, 3),
        ({"prompt": ["one", "two"], "n": 3}, 6),
        ({"prompt": [[1, 2], [3]]}, 2),
        # Tokens of one prompt.
        ({"prompt": [1, 2, 3]}, 1),
        ({"input": ["one", "two"]}, 2),
        # A conversation.
        ({"input": [{"role": "user"}, {"role": "assistant"}]}, 1),
        ({"messages": [{}, {}]}, 1),
        ({"texts": ["one", "two"]}, 2),
        ({"text_1": "one", "text_2": ["two", "three"]}, 2),
        ({"query": "one", "documents": ["two", "three", "four"]}, 3),
        # What a chat is about.
        ({"messages": [{}], "documents": [{}, {}]}, 1),
        ({"prompt": [], "n": 0}, 1),
        ({"n": "many"}, 1),
        ({"n": None}, 1),
    ],
)
def test_a_row_is_as_many_requests_as_prompts_and_answers(body: dict[str, Any], requests: int) -> None:
    assert requests_in(body) == requests


def order_of(size: int, *counts: int) -> list[str]:
    """What begins and ends when, where each has its room until the next round of the loop after it began."""
    room, seen = Room(size), list[str]()

    async def one(number: int, count: int) -> None:
        async with room.taken(count):
            seen.append(f"+{number}")
            for _ in range(20):
                await asyncio.sleep(0)
            seen.append(f"-{number}")

    async def run() -> None:
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            for number, count in enumerate(counts):
                group.create_task(one(number, count))

    asyncio.run(run())
    return seen


def test_so_many_have_room_at_a_time() -> None:
    assert order_of(4, 2, 2, 1)[:3] == ["+0", "+1", "-0"]
    assert order_of(4, 2, 1, 1)[:3] == ["+0", "+1", "+2"]


def test_one_that_is_too_large_has_it_alone() -> None:
    assert order_of(4, 1, 99, 1) == ["+0", "-0", "+1", "-1", "+2", "-2"]


def test_who_comes_first_goes_first() -> None:
    # The last one would have room before the large one.
    seen = order_of(4, 3, 4, 1)
    assert seen.index("+1") < seen.index("+2")


def test_room_comes_back_where_work_fails_or_is_broken_off() -> None:
    async def run() -> None:
        room = Room(2)
        with pytest.raises(ValueError, match="work"):
            async with room.taken(2):
                raise ValueError("work")
        async with room.taken(2):
            waiting = asyncio.create_task(room.taken(1).__aenter__())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        async with asyncio.timeout(20), room.taken(2):
            pass

    asyncio.run(run())

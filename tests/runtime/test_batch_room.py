"""How many requests a batch has under way."""

import asyncio
from typing import Any

import pytest

from rowen.runtime.batch.room import Room, has_prompt_logprobs, requests_in


@pytest.mark.parametrize(
    ("route", "body", "requests"),
    [
        ("/v1/completions", {"prompt": "one"}, 1),
        ("/v1/completions", {"prompt": "one", "n": 64}, 64),
        ("/v1/completions", {"prompt": "one", "n": "64"}, 64),
        ("/v1/completions", {"prompt": ["one", "two"], "n": "9" * 4300}, 2**32),
        ("/v1/completions", {"prompt": ["one", "two", "three"]}, 3),
        ("/v1/completions", {"prompt": ["one", "two"], "n": 3}, 6),
        ("/v1/completions", {"prompt": [[1, 2], [3]]}, 2),
        # Tokens of one prompt.
        ("/v1/completions", {"prompt": [1, 2, 3]}, 1),
        ("/v1/completions", {"prompt_embeds": ["one", "two"]}, 2),
        ("/v1/completions", {"prompt": [], "n": 0}, 1),
        ("/v1/completions", {"n": "many"}, 1),
        ("/v1/completions", {"n": None}, 1),
        ("/v1/completions", {"n": float("inf")}, 1),
        ("/v1/embeddings", {"input": ["one", "two"]}, 2),
        # It means nothing there.
        ("/v1/embeddings", {"input": ["one", "two"], "n": 9}, 2),
        ("/v1/embeddings", {"messages": [[{}], [{}, {}]]}, 2),
        ("/v1/responses", {"input": [{"role": "user"}, {"role": "assistant"}]}, 1),
        ("/v1/chat/completions", {"messages": [{}, {}]}, 1),
        ("/v1/chat/completions", {"messages": [{}], "documents": [{}, {}]}, 1),
        ("/v2/embed", {"texts": ["one", "two"]}, 2),
        ("/v2/embed", {"images": ["one", "two"]}, 2),
        ("/score", {"text_1": "one", "text_2": ["two", "three"]}, 3),
        ("/score", {"data_1": ["one"], "data_2": ["two"]}, 2),
        ("/score", {"queries": "one", "documents": ["two", "three", "four"]}, 4),
        ("/score", {"queries": ["one"], "items": ["two", "three"]}, 3),
        ("/rerank", {"query": "one", "documents": ["two", "three", {"content": []}]}, 4),
        ("/pooling", {}, 1),
    ],
)
def test_a_row_is_as_many_requests_as_prompts_and_answers(route: str, body: dict[str, Any], requests: int) -> None:
    assert requests_in(route, body) == requests


@pytest.mark.parametrize(
    ("route", "body", "asked"),
    [
        ("/v1/completions", {"prompt": "a", "prompt_logprobs": 0}, True),
        ("/v1/completions", {"prompt": "a", "prompt_logprobs": None}, False),
        ("/v1/completions", {"prompt": "a", "echo": True, "logprobs": 0}, True),
        ("/v1/completions", {"prompt": "a", "echo": True}, False),
        ("/v1/completions", {"prompt": "a", "logprobs": 5}, False),
        ("/v1/chat/completions", {"messages": [{}], "echo": True}, True),
        ("/v1/chat/completions", {"messages": [{}], "echo": False, "logprobs": True}, False),
    ],
)
def test_which_rows_ask_for_log_probabilities_of_their_prompts(route: str, body: dict[str, Any], asked: bool) -> None:
    assert has_prompt_logprobs(route, body) is asked


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

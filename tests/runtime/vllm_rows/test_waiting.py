"""vLLM's waiting queue with rows behind online requests."""

import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest
from vllm.v1.core.sched.request_queue import SchedulingPolicy, create_request_queue

from rowen.runtime.vllm.rows.order import Rows
from rowen.runtime.vllm.rows.waiting import RowsLast

CAME = itertools.count()


@dataclass(order=True)
class Waits:
    """A request, as far as queues go."""

    priority: int
    arrival_time: int = field(default_factory=lambda: next(CAME))
    request_id: str = ""
    block_hashes: tuple[str, ...] = ()
    lora_request: None = None

    def __hash__(self) -> int:
        return id(self)


def online(number: int, priority: int = 0) -> Any:
    return Waits(priority, request_id=f"cmpl-{number}")


def row(number: int, priority: int = 0) -> Any:
    return Waits(priority, request_id=f"cmpl-rowen-row-{number}")


@pytest.fixture(params=SchedulingPolicy)
def queue(request: pytest.FixtureRequest) -> RowsLast:
    return RowsLast(create_request_queue(request.param), Rows())


def test_rows_stand_behind_whatever_comes_when(queue: RowsLast) -> None:
    first, second = row(1), row(2, priority=-1)
    one, other = online(1), online(2)
    for request in (first, one, second, other):
        queue.add_request(request)
    assert list(queue) == [one, other, first, second]
    assert len(queue) == 4
    assert list(queue.online) == [one, other]
    assert [queue.pop_request() for _ in range(3)] == [one, other, first]
    assert queue.peek_request() is second
    assert queue
    queue.pop_request()
    assert not queue


def test_who_goes_back_stands_where_it_stood(queue: RowsLast) -> None:
    one, other, first, second = online(1), online(2), row(1), row(2)
    for request in (other, second):
        queue.add_request(request)
    queue.prepend_requests([first, one])
    assert list(queue) == [one, other, first, second]
    assert set(queue.online) == {one, other}


def test_who_leaves_is_gone_and_who_has_ended_is_none(queue: RowsLast) -> None:
    one, first, second = online(1), row(1), row(2)
    for request in (one, first, second):
        queue.add_request(request)
    queue.remove_requests([first, row(3)])
    assert list(queue) == [one, second]
    queue.remove_request(one)
    queue.remove_request(second)
    assert not queue
    assert len(queue) == 0

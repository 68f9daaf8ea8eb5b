"""What is looked at to tell whether rows' blocks would be enough."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from vllm.v1.request import RequestStatus

from rowen.runtime.vllm.rows.blocks import Beginning, Blocks


class Group(list[Any]):
    """Blocks of a row, which count how many of them were looked at."""

    looked = 0

    def __iter__(self) -> Iterator[Any]:
        for block in super().__iter__():
            Group.looked += 1
            yield block


def block(number: int, holders: int = 1) -> Any:
    return SimpleNamespace(block_id=number, ref_cnt=holders, is_null=False)


def would_do(needed: int, *rows: list[Any], found: list[Any] | None = None) -> bool:
    """With two free ones."""
    groups = {f"{number}": SimpleNamespace(blocks=(Group(each),)) for number, each in enumerate(rows)}
    pool = SimpleNamespace(get_num_free_blocks=lambda: 2)
    coordinator = SimpleNamespace(get_num_blocks_to_allocate=lambda: needed)
    manager: Any = SimpleNamespace(block_pool=pool, coordinator=coordinator, get_blocks=groups.get)
    blocks = Blocks(manager)
    with blocks.allocated(lambda: None):
        coordinator.get_num_blocks_to_allocate()
    requests: list[Any] = [SimpleNamespace(request_id=name) for name in groups]
    Group.looked = 0
    return blocks.would_do(requests, SimpleNamespace(blocks=(found,)) if found else None)  # type: ignore[arg-type]


def test_none_is_looked_at_where_all_are_too_few() -> None:
    assert not would_do(103, [block(number) for number in range(100)])
    assert Group.looked == 0


def test_no_more_are_looked_at_than_are_enough() -> None:
    assert would_do(5, [block(number) for number in range(100)])
    assert Group.looked == 3


@pytest.mark.parametrize(("holders", "enough"), [(2, True), (3, False)])
def test_a_block_of_several_counts_once_and_if_all_are_rows(holders: int, enough: bool) -> None:
    shared = block(1, holders)
    assert would_do(3, [shared], [shared]) is enough
    assert not would_do(4, [shared], [shared])


def test_what_was_found_is_not_taken() -> None:
    assert not would_do(3, [block(1)], found=[block(1)])


@pytest.mark.parametrize(
    ("status", "scheduled", "left"),
    [
        (RequestStatus.WAITING, True, 7),
        (RequestStatus.PREEMPTED, True, 7),
        (RequestStatus.WAITING, False, 0),
        (RequestStatus.RUNNING, True, 0),
    ],
)
def test_the_watermark_is_for_those_that_begin_beside_others(status: RequestStatus, scheduled: bool, left: int) -> None:
    manager: Any = SimpleNamespace(watermark_blocks=7)
    request: Any = SimpleNamespace(status=status)
    assert Blocks(manager).watermark(request, has_scheduled_reqs=scheduled, reserved_blocks=0) == left


@pytest.mark.parametrize(
    ("as_a_whole", "beside_online", "enough"), [(True, True, True), (False, True, False), (False, False, True)]
)
def test_the_reserve_is_left_by_a_row_whose_step_lacked_blocks_beside_requests(
    as_a_whole: bool, beside_online: bool, enough: bool
) -> None:
    """It wants 5, two are free, and another row has three; the reserve is one."""
    coordinator = SimpleNamespace(get_num_blocks_to_allocate=lambda **_: 5)
    held = SimpleNamespace(blocks=([block(number) for number in range(3)],))
    pool = SimpleNamespace(get_num_free_blocks=lambda: 2)
    manager: Any = SimpleNamespace(block_pool=pool, coordinator=coordinator, get_blocks=lambda _: held)
    blocks = Blocks(manager)

    def allocate(_row: Any, **_: Any) -> None:
        coordinator.get_num_blocks_to_allocate(apply_admission_cap=as_a_whole)

    beginning = Beginning(blocks, allocate, reserve=1, beside_online=beside_online)
    row: Any = SimpleNamespace(request_id="row", status=RequestStatus.WAITING)
    with blocks.allocated(beginning):
        assert beginning(row) is None
    assert beginning.stuck is row
    assert beginning.waits_for([row]) is enough

"""The order of rows that wait."""

from collections.abc import Hashable
from dataclasses import dataclass
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from rowen.runtime.vllm.rows.order import Rows


@dataclass
class Wanted:
    """A request, as far as its order goes."""

    request_id: str
    arrival_time: float
    block_hashes: list[Hashable]
    lora_request: SimpleNamespace | None = None


def row(number: int, begins: Hashable | None = None, adapter: int | None = None, came: float | None = None) -> Wanted:
    return Wanted(
        f"{number}",
        number if came is None else came,
        [] if begins is None else [begins, "more"],
        None if adapter is None else SimpleNamespace(lora_int_id=adapter),
    )


def of(*requests: Wanted) -> Rows:
    rows = Rows()
    for request in requests:
        rows.wait(request)
    return rows


def names(rows: Rows, adapters: list[int | None] | None = None) -> str:
    return "".join(request.request_id for request in rows.in_order(adapters))


def test_rows_that_begin_alike_follow_each_other() -> None:
    assert names(of(*(row(number, begins) for number, begins in enumerate("abacba")))) == "025143"


def test_short_rows_stay_where_they_are() -> None:
    assert names(of(*(row(number, begins) for number, begins in enumerate([None, "a", None, "a", None])))) == "01324"


def test_a_group_keeps_its_place_while_its_first_runs_and_no_longer() -> None:
    first, *others = (row(number, begins) for number, begins in enumerate("abab"))
    rows = of(first, *others)
    rows.run(first)
    assert names(rows) == "213"
    rows.end(first)
    assert names(rows) == "132"


def test_who_waits_again_has_the_place_that_it_had() -> None:
    wanted = [row(number) for number in range(3)]
    rows = of(*wanted)
    rows.run(wanted[0])
    rows.run(wanted[1])
    assert (names(rows), rows.waiting, len(rows)) == ("2", 1, 3)
    rows.wait(wanted[0])
    rows.wait(wanted[0])
    assert (names(rows), rows.waiting, len(rows)) == ("02", 2, 3)


def test_who_came_first_is_first_whenever_it_is_told() -> None:
    assert names(of(row(1, came=5), row(2, came=4), row(3, came=5))) == "213"


def test_what_is_no_row_is_none() -> None:
    rows = of(row(1))
    rows.end(row(2))
    rows.run(row(2))
    assert row(2) not in rows
    assert row(1) in rows
    rows.end(row(1))
    assert (rows.waiting, len(rows), rows.adapters()) == (0, 0, [])


def test_rows_of_an_adapter_without_room_keep_nobody_waiting() -> None:
    wanted = [row(0, adapter=7), row(1, "a"), row(2, adapter=7), row(3, "b", adapter=8), row(4)]
    rows = of(*wanted)
    assert rows.adapters() == [7, None, 8]
    assert names(rows) == "01234"
    assert names(rows, [None, 8]) == "134"
    rows.run(wanted[0])
    assert rows.adapters() == [None, 7, 8]
    rows.run(wanted[2])
    assert rows.adapters() == [None, 8]


def test_how_many_passed_a_row_counts_until_it_runs() -> None:
    wanted = row(1)
    rows = of(wanted)
    rows.row(wanted).passed += 2
    rows.row(wanted).passed += 3
    assert rows.row(wanted).passed == 5
    rows.row(wanted).passed = 0
    assert rows.row(wanted).passed == 0
    rows.row(wanted).passed += 2
    rows.run(wanted)
    rows.wait(wanted)
    assert rows.row(wanted).passed == 0


def test_with_how_many_blocks_a_row_was_tried_is_known_until_it_runs() -> None:
    wanted = row(1)
    rows = of(wanted)
    assert rows.row(wanted).tried_with == -1
    rows.row(wanted).tried_with = 7
    assert rows.row(wanted).tried_with == 7
    rows.run(wanted)
    rows.wait(wanted)
    assert rows.row(wanted).tried_with == -1


def expected(wanted: list[Wanted], waiting: set[str]) -> str:
    """By sorting them all."""
    found = sorted(wanted, key=lambda each: each.arrival_time)
    first: dict[Hashable, int] = {}
    for position, each in enumerate(found):
        first.setdefault(each.block_hashes[0] if each.block_hashes else each.request_id, position)
    found.sort(key=lambda each: first[each.block_hashes[0] if each.block_hashes else each.request_id])
    return "".join(each.request_id for each in found if each.request_id in waiting)


@given(st.data())
def test_it_is_that_of_all_rows_sorted(data: st.DataObject) -> None:
    rows, alive, waiting = Rows(), list[Wanted](), set[str]()
    for number in range(data.draw(st.integers(0, 9))):
        begins = data.draw(st.sampled_from([None, "a", "b"]))
        # What begins alike has the same adapter.
        new = row(number, begins, {None: None, "a": 7, "b": None}[begins], data.draw(st.integers(0, 3)))
        rows.wait(new)
        alive.append(new)
        waiting.add(new.request_id)
        one = data.draw(st.sampled_from(alive))
        match data.draw(st.sampled_from(["run", "wait", "end", "nothing"])):
            case "run":
                rows.run(one)
                waiting.discard(one.request_id)
            case "wait":
                rows.wait(one)
                waiting.add(one.request_id)
            case "end":
                rows.end(one)
                alive.remove(one)
                waiting.discard(one.request_id)
        assert names(rows) == expected(alive, waiting)
        assert (rows.waiting, len(rows)) == (len(waiting), len(alive))

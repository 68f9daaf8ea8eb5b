"""What online requests and rows do to each other in one engine."""

import inspect
import random
import sys
from collections.abc import Callable

from elastic.bench import Row, prompt
from runtime.vllm_rows.engine import RowEngine, Step
from vllm.v1.core.sched.interface import PauseState

ONLINE = [Row(prompt(number, 24 + 31 * number % 90), 12 + 5 * number % 20) for number in range(4)]
ROWS = [Row(prompt(40 + number, 30 + 47 * number % 150), 10 + 7 * number % 30) for number in range(8)]
LONG = Row(prompt(60, 400), 5)
"""Takes four steps to read."""

Answers = dict[Row, tuple[int, ...]]
Course = list[Step]


def course(engine: RowEngine, expected: Answers, rows: list[Row]) -> Course:
    """Online requests come one after the other, the rows before them all; returns the online part of the steps."""
    names = [(engine.submit(row, riding=True), row) for row in rows]
    engine.turn(3)
    # Of what both runs have in common: the names' numbers are not.
    renamed = {}
    for row in ONLINE:
        name = engine.submit(row)
        renamed[name] = f"{len(renamed)}"
        names.append((name, row))
        engine.turn(4)
    engine.finish()
    for name, row in names:
        assert engine.answer(name) == expected[row], (name, row)
    return [{renamed[name]: tokens for name, tokens in step.items()} for step in engine.online()]


def online_steps_are_the_same(engine: RowEngine, expected: Answers) -> None:
    alone = course(engine, expected, [])
    engine.forget()
    together = course(engine, expected, ROWS)
    assert together == alone
    assert any(_rows(step) and _online(step) for step in engine.steps), "no row rode"


def rows_keep_to_their_tokens(engine: RowEngine, expected: Answers) -> None:
    engine.pace.beside, engine.pace.alone = 3, 7
    names = [(engine.submit(row, riding=True), row) for row in [LONG, *ROWS[:2]]]
    engine.turn(2)
    online = engine.submit(ONLINE[1])
    engine.finish()
    for name, row in [*names, (online, ONLINE[1])]:
        assert engine.answer(name) == expected[row]
    assert {sum(_rows(step).values()) for step in engine.steps if _online(step)} == {3}
    assert max(sum(_rows(step).values()) for step in engine.steps if not _online(step)) == 7
    # A row is read in pieces, and stops between them.
    assert sum(name == names[0][0] for step in engine.steps for name in step) > 400 / 7
    # What was asked for is what the step held.
    decoding = [load for load in engine.pace.loads if load.decode_rows]
    assert all((load.decode_rows, load.row_tokens, load.prefill_tokens) == (1, 0, 0) for load in decoding)
    contexts = [load.decode_context for load in decoding]
    assert contexts == list(range(contexts[0], contexts[0] + len(contexts)))
    assert contexts[0] == len(ONLINE[1].prompt) + 1


def nothing_rides_while_there_is_no_room(engine: RowEngine, expected: Answers) -> None:
    engine.pace.beside = 0
    row = engine.submit(ROWS[0], riding=True)
    engine.turn(3)
    online = engine.submit(ONLINE[0])
    engine.finish()
    assert not any(_rows(step) and _online(step) for step in engine.steps)
    assert (engine.answer(row), engine.answer(online)) == (expected[ROWS[0]], expected[ONLINE[0]])


def online_takes_blocks_at_once(engine: RowEngine, expected: Answers) -> None:
    """Of the cache's 64 blocks rows leave fewer than a long prompt takes."""
    big = [Row(prompt(70 + number, 280), 60) for number in range(6)]
    names = [engine.submit(row, riding=True) for row in big]
    engine.turn(24)
    pool = engine.scheduler.kv_cache_manager.block_pool
    assert pool.get_num_free_blocks() < 13, pool.get_num_free_blocks()
    before = len(engine.steps)
    online = [engine.submit(row) for row in (LONG, Row(prompt(61, 120), 5))]
    engine.turn()
    # The step's budget is theirs.
    assert _online(engine.steps[before]) == {online[0]: 128}
    engine.finish()
    assert engine.answer(online[0]) == expected[LONG]
    preempted = [step for step in engine.steps if any(name in names and tokens > 1 for name, tokens in step.items())]
    assert preempted, "no row began again"
    alone = {row: engine.answer(name) for row, name in zip(big, names, strict=True)}
    engine.forget()
    again = [engine.submit(row) for row in big]
    engine.finish()
    assert [engine.answer(name) for name in again] == list(alone.values())


def a_row_that_begins_leaves_blocks(engine: RowEngine, expected: Answers) -> None:
    """Of 63 blocks four online requests have 13 each, and with what they may begin next a row's 4 are too many."""
    online = [engine.submit(Row(prompt(100 + number, 400), 40)) for number in range(4)]
    engine.turn(16)
    row = engine.submit(ROWS[2], riding=True)
    engine.turn(4)
    assert set(engine.steps[-1]) == set(online)
    engine.finish()
    assert engine.answer(row) == expected[ROWS[2]]


def rows_keep_blocks_that_would_not_be_enough(engine: RowEngine, expected: Answers) -> None:
    """Of 63 blocks four online requests have 13 each, and a row 5; a fifth one wants 13, too.

    Not on an arena, where blocks come as they are needed.
    """
    if engine.arena is not None:
        return
    name = engine.submit(ROWS[2], riding=True)
    engine.turn(3)
    row = next(each for each in engine.scheduler.requests.values() if each.request_id.startswith(name))
    online = [engine.submit(Row(prompt(110 + number, 400), 24)) for number in range(5)]
    engine.turn(16)
    assert {step.get(online[4], 0) for step in engine.steps} == {0}
    assert set(engine.steps[-1]) == {name, *online[:4]}
    engine.finish()
    assert row.num_preemptions == 0
    assert engine.answer(name) == expected[ROWS[2]]


def rows_give_way_to_as_many_as_there_are_seats(engine: RowEngine, expected: Answers) -> None:
    rows = [(engine.submit(row, riding=True), row) for row in ROWS]
    engine.turn(4)
    assert len(engine.steps[-1]) == 6
    six = [Row(prompt(80 + number, 20), 8) for number in range(6)]
    online = [engine.submit(row) for row in six]
    engine.turn(3)
    assert set(engine.steps[-1]) == set(online)
    engine.finish()
    for name, row in rows:
        assert engine.answer(name) == expected[row]


def rows_that_are_aborted_leave_nothing(engine: RowEngine, expected: Answers) -> None:
    rows = [engine.submit(row, riding=True) for row in ROWS]
    engine.turn(4)
    online = engine.submit(ONLINE[2])
    engine.turn(2)
    engine.bench.engine.abort_request(rows)
    engine.finish()
    assert engine.answer(online) == expected[ONLINE[2]]
    after = engine.submit(ONLINE[3])
    engine.finish()
    assert engine.answer(after) == expected[ONLINE[3]]
    assert not engine.scheduler._row_ids


def a_pace_that_fails_leaves_the_idle_engine(engine: RowEngine, expected: Answers) -> None:
    engine.pace.fails = True
    names = [(engine.submit(row, riding=True), row) for row in ROWS]
    engine.turn(3)
    online = engine.submit(ONLINE[0])
    engine.finish()
    engine.scheduler._row_pace = engine.pace
    assert not any(_rows(step) and _online(step) for step in engine.steps)
    for name, row in [*names, (online, ONLINE[0])]:
        assert engine.answer(name) == expected[row]


def rows_stand_still_while_the_lease_has_run_out(engine: RowEngine, expected: Answers) -> None:
    names = [(engine.submit(row, riding=True), row) for row in ROWS[:4]]
    engine.turn(4)
    engine.device.lease, before = False, len(engine.steps)
    names += [(engine.submit(row, riding=True), row) for row in ROWS[4:]]
    # With nothing else the engine waits, and does not turn.
    assert not engine.scheduler.has_unfinished_requests()
    engine.turn(3)
    assert len(engine.steps) <= before + 1
    online = engine.submit(ONLINE[0])
    assert engine.scheduler.has_unfinished_requests()
    engine.turn(2)
    # What has begun drains.
    engine.scheduler.set_pause_state(PauseState.PAUSED_NEW)
    assert engine.scheduler.has_unfinished_requests()
    engine.scheduler.set_pause_state(PauseState.UNPAUSED)
    while online not in engine.bench.answers:
        engine.turn()
    assert engine.answer(online) == expected[ONLINE[0]]
    assert not any(_rows(step) for step in engine.steps[before:])
    assert not engine.scheduler.has_unfinished_requests()
    assert engine.scheduler.get_num_unfinished_requests() == len(ROWS)
    _pause_without_a_lease(engine)
    engine.device.lease = True
    assert engine.scheduler.has_unfinished_requests()
    engine.finish()
    for name, row in names:
        assert engine.answer(name) == expected[row]


def _pause_without_a_lease(engine: RowEngine) -> None:
    """What waits is not begun in an engine that drains: rows that stand still keep it from nothing."""
    online = engine.submit(ONLINE[1])
    engine.scheduler.set_pause_state(PauseState.PAUSED_NEW)
    assert not engine.scheduler.has_unfinished_requests()
    engine.scheduler.set_pause_state(PauseState.UNPAUSED)
    assert engine.scheduler.has_unfinished_requests()
    engine.bench.engine.abort_request([online])


def memory_that_goes_changes_no_answer(engine: RowEngine, expected: Answers) -> None:
    """Of a cache on an arena."""
    source = random.Random(1)
    arena = engine.arena
    if arena is not None:

        def take(_step: int, layer: int) -> None:
            if layer == 1 and arena.mapped and source.random() < 0.3:
                arena.take(source.sample(sorted(arena.mapped), 1))

        engine.bench.hook = take
    names = [(engine.submit(row, riding=True), row) for row in ROWS]
    for row in ONLINE:
        engine.turn(3)
        names.append((engine.submit(row), row))
    engine.finish()
    engine.bench.hook = None
    for name, row in names:
        assert engine.answer(name) == expected[row]


def rows_that_begin_alike_are_read_once(engine: RowEngine, expected: Answers) -> None:
    beginnings = [prompt(90, 96), prompt(91, 96)]
    rows = [Row((*beginnings[number % 2], *prompt(92 + number, 20)), 4) for number in range(8)]
    names = [engine.submit(row, riding=True) for row in rows]
    engine.pace.alone = 24
    engine.finish()
    read: dict[str, int] = {}
    for step in engine.steps:
        for name, tokens in step.items():
            read[name] = read.get(name, 0) + tokens
    # Three blocks of 32 are found; four tokens are generated, the last of which is not computed.
    assert sorted(read[name] for name in names) == [23] * 6 + [119] * 2
    first = [next(number for number, step in enumerate(engine.steps) if name in step) for name in names]
    assert max(first[0::2]) <= min(first[1::2]), "the groups were mixed"


def _rows(step: Step) -> Step:
    return {name: tokens for name, tokens in step.items() if name.startswith("rowen-row-")}


def _online(step: Step) -> Step:
    return {name: tokens for name, tokens in step.items() if name.startswith("online-")}


SCENARIOS: dict[str, Callable[[RowEngine, Answers], None]] = {
    name: function
    for name, function in inspect.getmembers(sys.modules[__name__], inspect.isfunction)
    if list(inspect.signature(function).parameters) == ["engine", "expected"]
}

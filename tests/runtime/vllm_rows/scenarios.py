"""What online requests and rows do to each other in one engine."""

import inspect
import random
import sys
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from elastic.bench import Row, prompt
from runtime.vllm_rows.engine import RowEngine, Step
from vllm.v1.core.sched.interface import PauseState

from rowen.runtime.vllm.rows import part

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
    row = engine.request(name)
    online = [engine.submit(Row(prompt(110 + number, 400), 24)) for number in range(5)]
    engine.turn(16)
    assert {step.get(online[4], 0) for step in engine.steps} == {0}
    assert set(engine.steps[-1]) == {name, *online[:4]}
    engine.finish()
    assert row.num_preemptions == 0
    assert engine.answer(name) == expected[ROWS[2]]


def rows_keep_blocks_that_online_requests_have_too(engine: RowEngine, expected: Answers) -> None:
    """A row that begins as an online request has 12 blocks with it, and at most 2 of its own.

    Of 63 blocks four online requests have 13 each; a fifth one wants 13, too. Not on an arena.
    """
    if engine.arena is not None:
        return
    beginning = prompt(120, 400)
    online = [engine.submit(Row(beginning, 60))]
    engine.turn(5)
    name = engine.submit(Row((*beginning[:384], *prompt(121, 20)), 70), riding=True)
    engine.turn(2)
    row = engine.request(name)
    assert sum(step.get(name, 0) for step in engine.steps) < 32, "the beginning was read again"
    online += [engine.submit(Row(prompt(122 + number, 400), 24)) for number in range(4)]
    engine.turn(16)
    assert engine.steps[-1].keys() == {name, *online[:4]}
    engine.finish()
    assert row.num_preemptions == 0


def rows_keep_blocks_that_a_request_finds(engine: RowEngine, expected: Answers) -> None:
    """A row has the 12 blocks of the beginning of an online request that wants 16, and one more.

    Of 63 blocks three online requests have 16 each. Not on an arena.
    """
    if engine.arena is not None:
        return
    beginning = prompt(130, 384)
    name = engine.submit(Row((*beginning, *prompt(131, 8)), 60), riding=True)
    engine.turn(5)
    row = engine.request(name)
    for number in range(3):
        engine.submit(Row(prompt(132 + number, 500), 12))
    engine.turn(13)
    pool = engine.scheduler.kv_cache_manager.block_pool
    assert pool.get_num_free_blocks() < 4, pool.get_num_free_blocks()
    late = engine.submit(Row((*beginning, *prompt(136, 110)), 2))
    engine.turn(2)
    assert not any(late in step for step in engine.steps)
    engine.finish()
    assert row.num_preemptions == 0


def a_row_that_does_not_fit_lets_others_begin(engine: RowEngine, expected: Answers) -> None:
    """Of 63 blocks four online requests have 13 each; with 8 that are left to them there are 3."""
    online = [engine.submit(Row(prompt(140 + number, 400), 20)) for number in range(4)]
    engine.turn(14)
    big = [engine.submit(LONG, riding=True) for _ in range(2)]
    small = [engine.submit(Row(prompt(145 + number, 20), 4), riding=True) for number in range(2)]
    engine.turn(2)
    assert {*online, small[0]} <= engine.steps[-1].keys()
    assert not any(name in step for step in engine.steps for name in big)
    engine.finish()
    assert [engine.answer(name) for name in big] == [expected[LONG]] * 2


def no_more_than_a_few_are_tried(engine: RowEngine, expected: Answers) -> None:
    """Not on an arena, of which some is gone."""
    if engine.arena is not None:
        return
    online = [engine.submit(Row(prompt(150 + number, 400), 20)) for number in range(4)]
    engine.turn(14)
    big = [engine.submit(LONG, riding=True) for _ in range(2 * part.ASIDE_MOST)]
    small = engine.submit(ROWS[0], riding=True)
    engine.turn(2)
    assert engine.steps[-1].keys() == {*online}, engine.steps[-3:]
    # The third step begins behind those that the first two tried.
    engine.turn()
    assert engine.steps[-1].keys() == {*online, small}, engine.steps[-3:]
    engine.finish()
    assert [engine.answer(name) for name in big] == [expected[LONG]] * len(big)
    assert engine.answer(small) == expected[ROWS[0]]


def a_row_that_wants_nearly_all_blocks_begins(engine: RowEngine, expected: Answers) -> None:
    """Of 17 blocks it wants 15, and small ones keep coming. Not on an arena, of which some is gone."""
    if engine.arena is not None:
        return
    pool = engine.scheduler.kv_cache_manager.block_pool
    taken = pool.get_new_blocks(pool.get_num_free_blocks() - 17)
    # They end one after the other.
    small = [engine.submit(Row(prompt(240 + number, 20), 6 + 2 * number), riding=True) for number in range(6)]
    engine.turn(3)
    big = engine.submit(Row(prompt(239, 470), 3), riding=True)
    with patch.object(part, "PASSED_MOST", 8):
        for number in range(100):
            small.append(engine.submit(Row(prompt(246 + number, 20 + 20 * (number % 2)), 12), riding=True))
            engine.turn()
        assert any(big in step for step in engine.steps)
        engine.finish()
    pool.free_blocks(taken)
    assert {big, *small} <= engine.bench.answers.keys()


def rows_keep_blocks_below_the_watermark(engine: RowEngine, expected: Answers) -> None:
    """Of 63 blocks three online requests have 13 each and a row 5; a fourth wants 13 and 12 left free. No arena."""
    if engine.arena is not None:
        return
    name = engine.submit(ROWS[2], riding=True)
    engine.turn(3)
    row = engine.request(name)
    online = [engine.submit(Row(prompt(350 + number, 400), 24)) for number in range(3)]
    engine.turn(12)
    with patch.object(engine.scheduler.kv_cache_manager, "watermark_blocks", 12):
        late = engine.submit(LONG)
        engine.turn(3)
        assert engine.steps[-1].keys() == {name, *online}
        engine.finish()
    assert row.num_preemptions == 0
    assert engine.answer(late) == expected[LONG]


def no_more_run_than_may_be_active(engine: RowEngine, expected: Answers) -> None:
    with patch.object(engine.scheduler, "max_num_active_reqs", 4):
        online = [engine.submit(Row(prompt(360 + number, 20), 20)) for number in range(3)]
        engine.turn(2)
        names = [(engine.submit(row, riding=True), row) for row in ROWS]
        for _ in range(8):
            engine.turn()
            assert engine.scheduler.get_request_counts()[0] <= 4
        assert len(engine.steps[-1]) == 4
        engine.finish()
    assert {*online} <= engine.bench.answers.keys()
    for name, row in names:
        assert engine.answer(name) == expected[row]


def online_requests_wait_for_memory_once_rows_have_ended(engine: RowEngine, expected: Answers) -> None:
    engine.submit(ROWS[0], riding=True)
    engine.turn(3)
    assert engine.scheduler.shortage_wait_seconds == 0.0
    engine.finish()
    assert "shortage_wait_seconds" not in vars(engine.scheduler)


def a_row_that_many_passed_has_the_next_blocks(engine: RowEngine, expected: Answers) -> None:
    """Of 63 blocks online requests have 39 and three rows 18: beside two of them there are 12, and it wants 13."""
    for number in range(3):
        engine.submit(Row(prompt(160 + number, 388), 28))
    engine.turn(10)
    for number in range(3):
        engine.submit(Row(prompt(165 + number, 170), 6), riding=True)
    engine.turn(5)
    big = engine.submit(LONG, riding=True)
    small = [engine.submit(Row(prompt(170 + number, 170), 6), riding=True) for number in range(20)]
    with patch.object(part, "PASSED_MOST", 3):
        while not any(big in step for step in engine.steps):
            engine.turn()
    before = {name for step in engine.steps[:-1] for name in step} & {*small}
    assert 3 <= len(before) <= 4, before
    assert len(_online(engine.steps[-1])) == 3, "there was room again"
    engine.finish()
    assert engine.answer(big) == expected[LONG]
    assert {*small} <= engine.bench.answers.keys()


def a_row_that_cannot_have_enough_keeps_nobody_waiting(engine: RowEngine, expected: Answers) -> None:
    """Of 63 blocks online requests have 52 and are left 8: none of the others is kept for one that wants 13."""
    online = [engine.submit(Row(prompt(200 + number, 400), 20)) for number in range(4)]
    engine.turn(14)
    big = engine.submit(LONG, riding=True)
    small = [engine.submit(Row(prompt(205 + number, 20), 2), riding=True) for number in range(12)]
    with patch.object(part, "PASSED_MOST", 1):
        while engine.steps[-1].keys() >= {*online}:
            engine.turn()
        assert len({name for step in engine.steps for name in step} & {*small}) > 3
        engine.finish()
    assert engine.answer(big) == expected[LONG]


def vllm_sees_few_of_those_that_wait(engine: RowEngine, expected: Answers) -> None:
    scheduler: Any = engine.scheduler
    seen: list[int] = []
    scheduled, online_part = scheduler._scheduled, scheduler._online_part

    def noted(part: Any, *args: Any) -> Any:
        seen.append(len(part.queue))
        return scheduled(part, *args)

    def looked(*args: Any) -> Any:
        assert not any(name.startswith("rowen") for name in (each.request_id for each in scheduler.waiting))
        return online_part(*args)

    names = [engine.submit(Row(prompt(220 + number, 20), 5), riding=True) for number in range(60)]
    with patch.multiple(scheduler, _scheduled=noted, _online_part=looked):
        engine.turn(2)
        # With asynchronous scheduling steps are made before those before them have ended.
        assert scheduler.get_request_counts() == (6, 54)
        assert len(scheduler.waiting) == 54
        assert scheduler.get_num_unfinished_requests() == 60
        engine.bench.engine.abort_request(names[20:40])
        assert scheduler.get_request_counts() == (6, 34)
        engine.finish()
    assert {*names[:20], *names[40:]} <= engine.bench.answers.keys()
    assert 12 <= max(seen) <= 2 * 6 + part.ASIDE_MOST


def running_rows_wait_again_when_the_cache_is_reset(engine: RowEngine, expected: Answers) -> None:
    names = [(engine.submit(row, riding=True), row) for row in ROWS]
    online = engine.submit(ONLINE[0])
    engine.turn(4)
    engine.scheduler.reset_prefix_cache(reset_running_requests=True)
    assert engine.scheduler.get_request_counts() == (0, 1 + len(ROWS))
    assert next(iter(engine.scheduler.waiting)).request_id.startswith(online)
    engine.finish()
    for name, row in [*names, (online, ONLINE[0])]:
        assert engine.answer(name) == expected[row]


def prompts_with_logits_are_read_in_small_pieces(engine: RowEngine, expected: Answers) -> None:
    engine.pace.alone = 48
    with patch.object(engine.scheduler, "_most_with_logits", 16):
        row = engine.submit(LONG, riding=True, prompt_logprobs=1)
        other = engine.submit(ROWS[7], riding=True)
        engine.turn(3)
        assert {step[row] for step in engine.steps if row in step} == {16}
        assert any(step.get(other, 0) == 32 for step in engine.steps)
        online = engine.submit(LONG, prompt_logprobs=1)
        engine.turn()
        assert engine.steps[-1][online] > 16
        engine.finish()
    assert sum(step.get(row, 0) > 1 for step in engine.steps) == 400 / 16
    for name, wanted in [(row, LONG), (online, LONG), (other, ROWS[7])]:
        assert engine.answer(name) == expected[wanted]


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
    assert not engine.scheduler._rows


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

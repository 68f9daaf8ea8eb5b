"""What may happen to a cache on an arena: every row still gets the answer that an undisturbed vLLM gives."""

import random
import time
from collections.abc import Callable, Mapping
from typing import Any

from elastic.bench import Bench, Row, Tokens, prompt, rows
from structlog.testing import capture_logs

from rowen.runtime.memory import shortage
from rowen.runtime.vllm.elastic.keeper import Keeper

ROWS = rows()
LONG = Row(prompt(90, 300), 30)
"""Takes three steps to read and ten blocks to keep."""
FORK = Row((*LONG.prompt[:200], *prompt(91, 60)), 30)
"""Begins like `LONG`."""
TOGETHER = [Row(prompt(80 + number, 28), 80) for number in range(4)]
"""Begin their next blocks in the same step."""
BURST = [Row(prompt(100 + number, 300), 20) for number in range(3)]
"""As long as `LONG`, and nothing alike."""
ALL_ROWS = [*ROWS, LONG, FORK, *TOGETHER, *BURST]

Expected = Mapping[Row, Tokens]


def check(bench: Bench, expected: Expected, these: list[Row] = ROWS) -> None:
    answers = bench.run(these)
    wrong = {number: (answer, expected[row]) for number, (row, answer) in enumerate(zip(these, answers, strict=True))
             if answer != expected[row]}  # fmt: skip
    assert not wrong, wrong


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.001)


def undisturbed(bench: Bench, expected: Expected) -> None:
    most = []
    bench.hook = lambda *_: most.append((bench.arena.used, bench.arena.wanted))
    check(bench, expected)
    used, wanted = max(used for used, _ in most), max(wanted for _, wanted in most)
    # Six rows run at once.
    assert len(bench.handles(range(2, 8))) <= used <= wanted <= bench.arena.capacity
    assert (bench.arena.used, bench.arena.wanted) == (0, 0)
    assert bench.scheduler.get_kv_cache_usage() == 0


def one_row_wants_little(bench: Bench, expected: Expected) -> None:
    wanted = []
    bench.hook = lambda *_: wanted.append(bench.arena.wanted)
    check(bench, expected, [Row(ROWS[0].prompt, ROWS[0].tokens)])
    # At most 35 tokens: two blocks, and one to grow.
    assert max(wanted) <= len(bench.handles([2, 4, 6]))


def counted(bench: Bench, expected: Expected) -> None:
    """A step that loses nothing copies no list of a request's blocks."""
    scheduler, manager = bench.scheduler, bench.scheduler.kv_cache_manager
    schedule, list_blocks = scheduler.schedule, manager.get_block_ids
    listed: list[str] = []

    def note(name: str) -> Any:
        listed.append(name)
        return list_blocks(name)

    def watched(*arguments: Any) -> Any:
        manager.get_block_ids = note
        try:
            return schedule(*arguments)
        finally:
            del manager.get_block_ids

    scheduler.schedule = watched
    try:
        check(bench, expected, [*BURST, *ROWS])
    finally:
        del scheduler.schedule
    assert listed == []


def a_handle_at_a_time(bench: Bench, expected: Expected) -> None:
    """Of each layer, in prefill and decode."""

    def take(step: int, layer: int) -> None:
        used = bench.used()
        # Between two takings the longest row has to be read again, which is up to four steps, and to learn a token.
        if step % 7 == 0 and layer == step % len(bench.layers) and used:
            bench.arena.take([used[step % len(used)]])
            bench.arena.set_grant(bench.arena.capacity)

    before, bench.hook = bench.arena.taken, take
    check(bench, expected)
    assert bench.arena.taken - before > 10


def some_at_random(bench: Bench, expected: Expected) -> None:
    for seed in range(4):
        chance = random.Random(seed)

        def take(step: int, layer: int, chance: random.Random = chance) -> None:
            bench.arena.set_grant(min(bench.arena.capacity, bench.arena.grant + chance.randrange(3)))
            if chance.random() < 0.1:
                with bench.arena.lock:
                    mapped = sorted(bench.arena.mapped)
                    bench.arena.take(chance.sample(mapped, chance.randint(0, len(mapped))))

        bench.hook = take
        bench.arena.on_wait = lambda grant: bench.arena.set_grant(min(bench.arena.capacity, bench.arena.grant + 1))
        check(bench, expected)


def everything(bench: Bench, expected: Expected) -> None:
    waited = []

    def take(step: int, layer: int) -> None:
        if step % 17 == 5 and layer == 1 and bench.arena.mapped:
            bench.arena.take_all()
            waited.append(0)

    def wait(grant: int) -> None:
        waited[-1] += 1
        if waited[-1] == 5:
            bench.arena.set_grant(bench.arena.capacity)

    bench.hook, bench.arena.on_wait = take, wait
    check(bench, expected)
    assert waited == [5] * len(waited)
    assert len(waited) > 2


def in_the_last_step_of_each(bench: Bench, expected: Expected) -> None:
    seen = set()

    def take(step: int, layer: int) -> None:
        for request in bench.scheduler.running:
            last = request.num_output_tokens + request.num_output_placeholders >= request.max_tokens - 1
            if layer == 1 and last and request.request_id not in seen:
                seen.add(request.request_id)
                handles = bench.handles(bench.running()[request.request_id])
                bench.arena.take(sorted(handles & bench.arena.mapped))
                bench.arena.set_grant(bench.arena.capacity)

    bench.hook = take
    check(bench, expected)
    assert len(seen) == len(ROWS)


def _lose_the_begin(bench: Bench, and_then: Callable[[str], None]) -> None:
    """When the request that reads `LONG` is in its second step, before its last layer."""

    def take(step: int, layer: int) -> None:
        for request in bench.scheduler.running:
            if layer == len(bench.layers) - 1 and request.num_computed_tokens == 256:
                bench.hook = None
                bench.arena.take(sorted(bench.handles(bench.running()[request.request_id][:1])))
                bench.arena.set_grant(bench.arena.capacity)
                and_then(request.request_id)

    bench.hook = take


def found_as_a_prefix(bench: Bench, expected: Expected) -> None:
    """What a step without a valid result has written is not found by a request that comes later."""
    lost: list[str] = []
    _lose_the_begin(bench, lost.append)
    check(bench, expected, [LONG, ROWS[0]])
    check(bench, expected, [FORK, LONG])
    assert lost


def aborted(bench: Bench, expected: Expected) -> None:
    """An abort that comes before the step's output leaves nothing meaningless behind."""
    lost: list[str] = []

    def abort(name: str) -> None:
        lost.append(name)
        bench.core.aborts_queue.put([name])

    _lose_the_begin(bench, abort)
    name = bench.submit(LONG)
    others = [bench.submit(row) for row in ROWS[:3]]
    for _ in range(3):
        bench.turn()
    assert lost
    bench.engine.abort_request([name])
    bench.finish()
    assert [bench.answers[each] for each in others] == [expected[row] for row in ROWS[:3]]
    assert name not in bench.answers
    check(bench, expected, [FORK, LONG])


def while_idle(bench: Bench, expected: Expected) -> None:
    check(bench, expected)
    for _ in range(2):
        bench.turn()
    bench.arena.take_all()
    bench.arena.set_grant(bench.arena.capacity)
    check(bench, expected)
    with bench.arena.lock:
        bench.arena.take([max(bench.arena.mapped)])
        bench.arena.set_grant(len(bench.arena.mapped) // 2)
    until(lambda: len(bench.arena.mapped) <= bench.arena.grant, "an idle engine gives back after a loss, too")
    bench.arena.set_grant(bench.arena.capacity)
    check(bench, expected)


def halves(bench: Bench, expected: Expected) -> None:
    """A part of each slab is taken, and the owner gives what is wanted, but takes into account what is held."""
    arena = bench.arena
    arena.set_grant(len(bench.handles(range(2, 10))))
    until(lambda: len(arena.mapped) == arena.grant, "as much is mapped as may be")
    with arena.lock:
        arena.take(sorted({bench.geometry.slab_of_handle(handle): handle for handle in sorted(arena.mapped)}.values()))
    arena.on_wait = lambda grant: arena.set_grant(max(arena.wanted, len(arena.mapped)))
    check(bench, expected, ROWS[:1])


def bursts(bench: Bench, expected: Expected) -> None:
    """The first does not wait for the memory of the others, and those get theirs although nobody maps ahead."""
    bench.scheduler._keeper.stop()
    for burst, at_first in ((BURST, 1), (TOGETHER, len(TOGETHER))):
        with bench.arena.lock:
            bench.arena.take_all()
            bench.arena.set_grant(bench.arena.capacity)
        seen: list[tuple[int, int]] = []
        bench.hook = lambda *_, seen=seen: seen.append((len(bench.arena.mapped), len(bench.scheduler.running)))  # type: ignore[misc]
        check(bench, expected, burst)
        blocks = at_first * -(-(len(burst[0].prompt) + 1) // bench.scheduler.block_size)
        assert seen[0] == (len(bench.handles(range(1, 1 + blocks))), at_first)
        assert max(running for _, running in seen) == len(burst)
    bench.scheduler._keeper = Keeper(bench.scheduler._cache)


def beside_one_that_grows(bench: Bench, expected: Expected) -> None:
    """The first that waits gets in although one that runs begins a block in the same step."""
    scheduler = bench.scheduler
    scheduler._keeper.stop()
    with bench.arena.lock:
        bench.arena.take_all()
        bench.arena.set_grant(bench.arena.capacity)
    names = [bench.submit(TOGETHER[0])]
    bench.turn()
    while not scheduler._growth(scheduler.running[0]):
        bench.turn()
    with scheduler._cache.lock:
        # As many as the step itself can need, and fewer than the request that waits.
        scheduler._cache.claim(scheduler.max_num_scheduled_tokens // scheduler.block_size + 2)
    names.append(bench.submit(LONG))
    bench.turn()
    assert len(scheduler.running) == len(names)
    scheduler._keeper = Keeper(scheduler._cache)
    bench.finish()
    assert [bench.answers[name] for name in names] == [expected[row] for row in (TOGETHER[0], LONG)]


def scarce(bench: Bench, expected: Expected) -> None:
    """vLLM's own preemption, for the lack of blocks."""
    bench.arena.set_grant(len(bench.handles(range(2, 22))))
    until(lambda: len(bench.arena.mapped) <= bench.arena.grant, "handles beyond the grant are given back")
    check(bench, expected)
    assert len(bench.arena.mapped) <= bench.arena.grant


def scarce_and_patient(bench: Bench, expected: Expected) -> None:
    """Where the owner gives what an engine waits for, no request is preempted, also if some blocks are free still."""
    bench.arena.set_grant(len(bench.handles(range(1, len(TOGETHER) + 2))))
    until(lambda: len(bench.arena.mapped) <= bench.arena.grant, "handles beyond the grant are given back")
    asked: list[int] = []
    preempted: list[str] = []
    preempt = bench.scheduler._preempt_request

    def give(grant: int) -> None:
        asked.append(grant - bench.arena.grant)
        bench.arena.set_grant(max(grant, bench.arena.grant))

    def note(request: Any, *arguments: Any, **named: Any) -> None:
        preempted.append(request.request_id)
        preempt(request, *arguments, **named)

    bench.arena.on_wait = give
    bench.scheduler.shortage_wait_seconds, bench.scheduler._preempt_request = 60.0, note
    try:
        check(bench, expected, TOGETHER)
    finally:
        del bench.scheduler.shortage_wait_seconds, bench.scheduler._preempt_request
    assert any(more > 0 for more in asked)
    assert preempted == []


def the_grant_comes_and_goes(bench: Bench, expected: Expected) -> None:
    chance, before = random.Random(1), bench.arena.taken

    def change(step: int, layer: int) -> None:
        if layer == 0 and step % 5 == 0:
            bench.arena.set_grant(chance.randint(0, bench.arena.capacity))

    bench.hook = change
    bench.arena.on_wait = bench.arena.set_grant
    check(bench, expected)
    for grant in (0, 7, bench.arena.capacity):
        bench.arena.set_grant(grant)
        whole = grant // bench.geometry.handles_per_slab * bench.geometry.handles_per_slab
        most = min(whole, len(bench.handles(range(1, bench.geometry.blocks))))
        # An idle engine gives back and takes, too.
        until(lambda most=most: len(bench.arena.mapped) == most, f"{most} handles are mapped")  # type: ignore[misc]
    assert bench.arena.taken == before


def too_little_for_one(bench: Bench, expected: Expected) -> None:
    shortage.GRACE_SECONDS = shortage.REPEAT_SECONDS = 0.0
    needed = -(-(len(LONG.prompt) + LONG.tokens) // bench.scheduler.block_size)
    little, enough = (len(bench.handles(range(2, 2 + blocks))) for blocks in (needed // 2, needed + 2))
    bench.arena.set_grant(little)
    until(lambda: len(bench.arena.mapped) <= bench.arena.grant, "handles beyond the grant are given back")
    with capture_logs() as logs:
        name = bench.submit(LONG)
        for _ in range(20):
            bench.turn()
        assert name not in bench.answers
        assert not bench.scheduler.running
    bench.arena.set_grant(enough)
    bench.finish()
    assert bench.answers[name] == expected[LONG]
    [(granted, wanted)] = {(entry["handles_granted"], entry["handles_needed"]) for entry in logs}
    assert granted == little < wanted


def too_little_room_for_one(bench: Bench, expected: Expected) -> None:
    """The pod's memory limit leaves less than is granted."""
    shortage.GRACE_SECONDS = shortage.REPEAT_SECONDS = 0.0
    arena, needed = bench.arena, -(-(len(LONG.prompt) + LONG.tokens) // bench.scheduler.block_size)
    with arena.lock:
        arena.room = len(bench.handles(range(2, 2 + needed // 2)))
        arena.take_all()
        arena.set_grant(arena.capacity)
    try:
        with capture_logs() as logs:
            name = bench.submit(LONG)
            for _ in range(20):
                bench.turn()
        assert name not in bench.answers
        [(line, granted, wanted)] = {
            (entry["event"], entry["handles_granted"], entry["handles_needed"]) for entry in logs
        }
        assert "the pod's memory limit" in line
        assert granted == arena.room < wanted
    finally:
        arena.room = arena.capacity
    bench.finish()
    assert bench.answers[name] == expected[LONG]


def forgotten_prefixes(bench: Bench, expected: Expected) -> None:
    """vLLM's own reset works although most blocks have no memory."""
    bench.arena.set_grant(len(bench.handles(range(2, 40))))
    check(bench, expected)
    assert bench.scheduler.reset_prefix_cache()
    check(bench, expected)


SCENARIOS: dict[str, Callable[[Bench, Expected], None]] = {
    scenario.__name__: scenario
    for scenario in (
        undisturbed, one_row_wants_little, counted, a_handle_at_a_time, some_at_random, everything,
        in_the_last_step_of_each, found_as_a_prefix, aborted, while_idle, halves, bursts, beside_one_that_grows,
        scarce, scarce_and_patient, the_grant_comes_and_goes, too_little_for_one, too_little_room_for_one,
        forgotten_prefixes,
    )
}  # fmt: skip

"""What the benchmark of memory that changes its owner replays, how its arms divide a pool, and what it says of that."""

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
from harvest.arms import DEFAULT, Apart, NeverReclaimed, Rowen, Shares, Static, past
from harvest.figures import ENDLESS, offline_figures, ratio_verdict, versus, versus_figures
from harvest.history import HISTORY_SECONDS, History
from harvest.load import MAX_TOKENS, SPEED, Memory, Speeds, Use, requests_of, simulated, sized
from harvest.tally import Counts, Order, Tally
from harvest.turns import Turn
from reporting.blocks import Block
from reporting.repeat import Repeat
from reporting.report import Missing

from rowen.demo.traffic.excerpt import TraceRow
from rowen.demo.traffic.scaling import Request
from rowen.node_agent.memory.loans import Borrower, Loans
from rowen.node_agent.memory.pool import Pool

HANDLES = 40
MEMORY = Memory(HANDLES, 32)


SPEEDS = Speeds(step=0.01, prompt_token=0.0005, sequence=0.0005)


def rows(seconds: int, every: float = 2.0) -> list[TraceRow]:
    return [TraceRow(number * every, 1000 + number % 500, 20) for number in range(int(seconds / every))]


def test_requests_are_sized_to_the_engine_and_the_pool() -> None:
    rules, use = sized(rows(400, 0.25), 400.0, SPEEDS, MEMORY, 0, 0.8)
    requests = requests_of(rows(400, 0.25), rules, 0.0, 400.0)
    assert use == simulated(requests, SPEEDS, MEMORY)
    assert use.peak <= 0.8 * HANDLES
    assert all(0 <= request.arrival < 400.0 / SPEED for request in requests)
    assert all(len(request.prompt) + request.output_tokens <= MAX_TOKENS for request in requests)
    slower = Speeds(step=0.02, prompt_token=0.001, sequence=0.001)
    assert sized(rows(400, 0.25), 400.0, slower, MEMORY, 0, 0.8)[0] != rules


def test_a_trace_without_requests_is_refused() -> None:
    with pytest.raises(ValueError, match="no requests"):
        sized([], 500.0, SPEEDS, MEMORY, 0, 0.8)


def test_the_simulated_engine_takes_the_time_of_each_step_and_whole_handles() -> None:
    one = Request(0.0, (9,) * 33, 10)
    assert simulated([], SPEEDS, MEMORY) == Use(0, 0.0)
    # A step with the prompt, which brings the first token, and nine more.
    alone = simulated([one], SPEEDS, MEMORY)
    assert alone == Use(2, pytest.approx(10 * 0.01 + 33 * 0.0005 + 9 * 0.0005))
    assert simulated([one, one], SPEEDS, MEMORY).peak == 4
    assert simulated([one, replace(one, arrival=50.0)], SPEEDS, MEMORY) == Use(2, pytest.approx(2 * alone.busy_seconds))


def test_what_does_not_fit_waits() -> None:
    most = Request(0.0, (9,) * 480, 10)
    assert simulated([most] * 5, SPEEDS, MEMORY).peak <= HANDLES


def test_the_hour_before_is_sampled_as_the_policy_comes_round() -> None:
    history = History(((0.2, 3), (0.6, 1), (2.2, 7), (9.0, 2)), 0.5, 7)
    assert history.before(2.0) == [3, 3, 1, 1]
    assert history.before(3.0) == [3, 3, 1, 1, 7, 7]
    assert history.before(0.0) == []
    assert len(history.before(HISTORY_SECONDS + 500)) == HISTORY_SECONDS / 0.5


def test_rowens_policy_has_the_hour_behind_it() -> None:
    quiet, bursty = past([1] * 7200, HANDLES, DEFAULT), past(([1] * 100 + [30] * 20) * 60, HANDLES, DEFAULT)
    assert quiet.time == bursty.time == 7199 * 0.5
    assert quiet.state.headroom < bursty.state.headroom <= HANDLES
    assert past([], HANDLES, DEFAULT).time == 0.0


def test_a_worker_and_its_parent_share_a_tally(tmp_path) -> None:
    worker, parent = Tally(tmp_path / "tally"), Tally(tmp_path / "tally")
    assert parent.read() == Counts()
    worker.write(Counts(tokens=2**40, lost=7, ready=True))
    assert parent.read() == Counts(2**40, 7, True)
    parent.tell(Order(2, 17.5))
    assert worker.told() == Order(2, 17.5)
    assert parent.read().tokens == 2**40


@pytest.fixture
def shares(tmp_path) -> Iterator[Shares]:
    """A pool with an engine (member 1) and a worker (member 2) that nobody serves."""
    pool = Pool(HANDLES, 65536)
    loans = Loans(pool, tmp_path)
    loans.lend(Borrower(None, 1), HANDLES, keeps_ledger=False)
    loans.lend(Borrower(0, 2), HANDLES, keeps_ledger=False)
    yield Shares(loans, HANDLES)
    pool.close()
    loans.close()


def granted(shares: Shares, *, stopped: bool = False) -> tuple[int, int]:
    """To the engine and to the worker, after a round."""
    shares.loans.pool.serve(1.0, offline_stopped=stopped)
    status = shares.status()
    engine, worker = shares.member(status, None), shares.member(status, 0)
    assert engine is not None
    assert worker is not None
    return engine.granted, worker.granted


def test_alone_the_engine_has_everything(shares: Shares) -> None:
    Apart(shares, engine=HANDLES, worker=0).enter()
    assert granted(shares) == (HANDLES, 0)


def test_a_static_part_is_kept_until_the_engine_wants_more(shares: Shares) -> None:
    kills: list[int] = []
    static = Static(shares, lambda: kills.append(1))
    static.part = 15
    static.enter()
    assert granted(shares) == (HANDLES - 15, 15)
    assert granted(shares, stopped=True) == (HANDLES - 15, 15)
    static.look(0.0, gate_open=True)
    assert kills == []


def test_rowens_loop_keeps_headroom_and_offers_the_rest(shares: Shares) -> None:
    rowen = Rowen(shares, DEFAULT)
    rowen.past = past([1] * 100, HANDLES, DEFAULT)
    rowen.enter()
    for now in (1.0, 2.0, 3.0):
        rowen.look(now, gate_open=True)
    engine, _ = granted(shares)
    assert 0 < engine < HANDLES / 4
    Apart(shares, engine=HANDLES, worker=0).enter()
    assert granted(shares)[0] == HANDLES
    rowen.enter()
    assert granted(shares)[0] == rowen.past.state.headroom


def test_without_reclaims_the_engine_always_has_its_part(shares: Shares) -> None:
    NeverReclaimed(shares, 17).enter()
    assert granted(shares)[0] == 17


def turn(arm: str, number: int, tokens: int | None, *, granted_seconds: float = 5.0, stretch: str = "one") -> Turn:
    repeat = Repeat(arm, Block(number, 0.0, ()), (), 10.0, 5.0, 5.0, tokens, 0, (), (), 0, 0.0)
    return Turn(repeat, stretch, 2, 8, 30, 1, 0.0, granted_seconds, 12.0, 20)


def test_rowens_work_is_compared_block_by_block_and_by_stretch() -> None:
    turns = [turn("rowen", number, 300, stretch="one" if number < 6 else "two") for number in range(12)]
    turns += [turn("static", number, 200, stretch="one") for number in range(6)]
    turns += [turn("static", number, 100, stretch="two") for number in range(6, 12)]
    turns += [turn("never_reclaimed", number, 300, stretch="one" if number < 6 else "two") for number in range(12)]
    figures = versus_figures(turns)
    assert figures["offline_vs_static_min"] == (pytest.approx(1.5), "ratio")
    assert figures["offline_vs_static_max"] == (pytest.approx(3.0), "ratio")
    assert figures["offline_vs_static_two_low"] == (pytest.approx(3.0), "ratio")
    assert figures["offline_vs_no_reclaim"] == (pytest.approx(1.0), "ratio")
    assert figures["offline_vs_no_reclaim_blocks"] == (12.0, "blocks")


def test_beside_a_worker_that_did_nothing_any_work_is_infinitely_more() -> None:
    turns = [turn("rowen", number, 300) for number in range(6)] + [turn("static", number, 0) for number in range(6)]
    assert versus(turns, "static").estimate == math.inf
    assert versus_figures(turns)["offline_vs_static_min"] == (Missing(ENDLESS), "ratio")


def test_what_an_arm_did_is_a_part_of_what_the_worker_does_alone() -> None:
    figures = offline_figures([turn("rowen", number, 300) for number in range(3)], "rowen", 60.0)
    assert figures["offline_part_of_solo"] == (pytest.approx(0.5), "fraction")
    assert figures["offline_part_of_solo_when_granted"] == (pytest.approx(1.0), "fraction")
    assert figures["tokens_lost_fraction"] == (pytest.approx(0.1), "fraction")
    assert (figures["reclaims"], figures["kills"]) == ((6.0, "1"), (3.0, "1"))
    assert offline_figures([turn("alone", 0, None)], "alone", 60.0) == {}


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (1.1, 2.0, "keeps the bar"),
        (1.0, 2.0, "cannot tell (interval on both sides of the bar)"),
        (0.5, 1.0, "below the bar"),
        (None, None, "cannot tell (no interval)"),
    ],
)
def test_a_ratio_is_judged_by_its_interval(low, high, said) -> None:
    assert ratio_verdict(low, high, 1.09) == said

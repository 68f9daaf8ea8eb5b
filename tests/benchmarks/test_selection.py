"""The simulated engine that loses memory, and the figures that are made of its losses."""

import json
import random

import pytest
import selection
from choice import choosing_time
from choice.batching import BLOCK_TOKENS, STEP_TOKENS, Engine, Machine, Request, draw_requests
from reporting.jitter import percentile
from reporting.report import Missing
from selection import Cell, any_at_all, by_ledger, job_seconds, loss_figures, measure_selection, oldest

ANY = random.Random(0)


def request(number, prompt, output):
    return Request(number, prompt, output, prompt)


def engine_of(*work, handles=8, packed=2):
    return Engine(handles, packed, work, Machine())


def used(engine):
    return sorted(block for one in engine.running for block in one.blocks)


def run(engine):
    steps = 0
    while not engine.done:
        engine.step()
        steps += 1
    return steps


def test_a_request_takes_a_step_for_its_prompt_and_one_for_each_further_token():
    assert run(engine_of(request(0, 20, 5))) == 5


def test_a_long_prompt_takes_several_steps():
    engine = engine_of(request(0, STEP_TOKENS + 1, 1), handles=100)
    assert run(engine) == 2


def test_blocks_come_as_the_request_grows_and_go_with_it():
    engine = engine_of(request(0, BLOCK_TOKENS, 3))
    engine.step()
    assert (used(engine), engine.running[0].computed) == ([0], BLOCK_TOKENS)
    engine.step()
    assert used(engine) == [0, 1]
    engine.step()
    assert (engine.done, engine.allocated) == (True, {})


def test_waiting_requests_come_in_only_when_all_of_them_fits():
    engine = engine_of(request(0, 10 * BLOCK_TOKENS, 2), request(1, 6 * BLOCK_TOKENS + 1, 2), request(2, 1, 2))
    engine.step()
    assert [one.number for one in engine.running] == [0]


def test_without_a_free_block_the_request_that_came_last_starts_over():
    engine = engine_of(request(0, 10 * BLOCK_TOKENS, 40), request(1, 6 * BLOCK_TOKENS, 5))
    engine.step()
    engine.step()
    assert [one.number for one in engine.running] == [0]
    run(engine)
    assert engine.done


def test_requests_that_lose_a_handle_start_over_and_the_others_go_on():
    engine = engine_of(request(0, 20, 9), request(1, 20, 9), request(2, 20, 9))
    for _ in range(3):
        engine.step()
    assert [one.blocks for one in engine.running] == [[0, 1], [2, 3], [4, 5]]
    engine.take([1])
    assert [(one.number, one.computed) for one in engine.running] == [(0, 22), (2, 22)]
    engine.step()
    again = engine.running[-1]
    assert (again.number, again.computed, again.length) == (1, 23, 24)
    assert not {2, 3} & set(again.blocks)


def test_requests_that_keep_what_they_have_computed_only_wait_for_memory():
    engine = engine_of(request(0, 20, 9), request(1, 20, 9))
    for _ in range(3):
        engine.step()
    engine.take([1], forget=False)
    engine.step()
    assert [(one.number, one.computed) for one in engine.running] == [(0, 23), (1, 23)]


def test_handles_that_are_gone_are_not_used_until_they_are_back():
    engine = engine_of(request(0, 6 * BLOCK_TOKENS, 30), handles=4)
    engine.take([0, 1])
    engine.step()
    assert used(engine) == []
    engine.give([0, 1])
    engine.step()
    assert len(used(engine)) == 6
    run(engine)


def test_blocks_of_a_handle_that_went_while_they_were_in_use_do_not_come_back_by_themselves():
    engine = engine_of(request(0, 2 * BLOCK_TOKENS, 4), request(1, 2 * BLOCK_TOKENS, 4), handles=3)
    engine.step()
    engine.take([0])
    run(engine)
    assert engine.held == {1, 2}
    engine.give([0])
    engine.take([0, 1, 2])
    assert engine.held == set()


@pytest.mark.parametrize("packed", [1, 2, 8])
def test_every_job_ends_and_gives_all_its_memory_back(packed):
    engine = Engine(2048 // packed, packed, draw_requests(60, 1), Machine())
    out = []
    for step in range(10**6):
        if engine.done:
            break
        if step % 20 == 0 and len(engine.held) > 1600 // packed:
            out.append(oldest(engine, 100 // packed, ANY))
            engine.take(out[-1])
        elif step % 20 == 10 and out:
            engine.give(out.pop(0))
        engine.step()
        blocks = used(engine)
        assert len(blocks) == len(set(blocks)) == len(engine.allocated)
        assert {engine.handle_of(block) for block in blocks} <= engine.held
    assert engine.done
    assert engine.allocated == {}


def test_the_oldest_block_goes_first_after_empty_handles():
    engine = engine_of(request(0, 40, 9), request(1, 40, 9), handles=5)
    engine.step()
    # The first request has blocks 0 to 2, the second one 3 to 5, in handles 0, 1 and 1, 2.
    assert oldest(engine, 5, ANY) == [3, 4, 0, 1, 2]


def test_any_handle_may_go_after_empty_ones():
    engine = engine_of(request(0, 40, 9), request(1, 40, 9), handles=5)
    engine.step()
    found = [any_at_all(engine, 5, random.Random(seed)) for seed in range(20)]
    assert {tuple(sorted(handles[:2])) for handles in found} == {(3, 4)}
    assert len({tuple(handles) for handles in found}) > 5


def test_the_agents_choice_spares_the_dearer_request():
    engine = engine_of(request(0, 40, 9), request(1, 24, 9), handles=5)
    engine.step()
    # The first request has blocks 0 to 2, the second one 3 and 4, in handles 0, 1 and 1, 2: 40 tokens against 24.
    with by_ledger(5) as choose:
        assert choose(engine, 2, ANY) == [3, 4]
        assert choose(engine, 3, ANY) == [3, 4, 2]
        assert choose(engine, 4, ANY) == [3, 4, 0, 1]


def test_the_same_seed_gives_the_same_job():
    cell = Cell(20, 20)
    first = job_seconds(150, 3, cell, oldest)
    assert first == job_seconds(150, 3, cell, oldest)
    assert first > job_seconds(150, 3, cell, None)
    assert first != job_seconds(150, 4, cell, oldest)


def loss(selective, fifo):
    return {"selective": selective, "fifo": fifo, "random": 0.5, "nothing_recomputed": 0.0}


def test_the_figure_is_the_least_of_the_medians_over_the_grid():
    cells = {
        Cell(2, 2): [loss(0.05, 0.1)] * 5 + [loss(0.1, 0.1)],
        Cell(6, 5): [loss(0.03, 0.1)] * 6,
        # Not a part of the grid.
        Cell(6, 5, 8): [loss(0.09, 0.1)] * 6,
    }
    figures, baselines = loss_figures(cells)
    name = "selective_vs_fifo_loss_reduction"
    values = {key: value for key, (value, _) in figures.items()}
    assert values[name] == pytest.approx(0.5)
    assert (values[f"{name}_low"], values[f"{name}_high"]) == pytest.approx((0.0, 0.5))
    assert values[f"{name}_mean"] == pytest.approx(0.6)
    assert values[f"{name}_max"] == pytest.approx(0.7)
    assert values["reduction_6pm_5pct_packed8"] == pytest.approx(0.1)
    assert values["loss_6pm_5pct"] == pytest.approx(0.03)
    assert baselines["fifo"]["loss_2pm_2pct"] == (pytest.approx(0.1), "fraction")
    assert set(baselines) == {"fifo", "random", "nothing_recomputed"}


def test_too_few_seeds_have_no_interval():
    figures, _ = loss_figures({Cell(2, 2): [loss(0.05, 0.1)] * 5})
    assert isinstance(figures["selective_vs_fifo_loss_reduction_low"][0], Missing)


def test_the_raw_values_are_those_that_the_figures_are_made_of(monkeypatch):
    monkeypatch.setattr(choosing_time, "HANDLES", 2_000)
    monkeypatch.setattr(choosing_time, "OWNERS", 50)
    monkeypatch.setattr(selection, "losses", lambda requests, seed, cell: loss(0.001 * (seed + cell.packed), 0.1))
    found = measure_selection(3, quick=True)
    raw = json.loads(json.dumps(found.repeats))
    assert [each["selective"] for each in raw["losses"]["6pm_5pct_packed8"]] == [
        0.001 * (seed + 8) for seed in range(3, 9)
    ]
    assert raw["losses"].keys() == {name.removeprefix("loss_") for name in found.figures if name.startswith("loss_")}
    assert sum(count for _, count in raw["choosing"].pop("jitter")) > 0
    assert [len(times["choose_ms"]) for times in raw["choosing"].values()] == [20] * len(choosing_time.WANTED)
    choices = [time for times in raw["choosing"].values() for time in times["choose_ms"]]
    assert found.figures["choose_ms_p99"] == (percentile(choices, 0.99), "ms")

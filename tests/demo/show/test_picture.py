import random

import pytest
from outcomes import outcome
from pools import reading

from rowen.demo.show.picture import Drawing, compose, draw, in_flight_steps, memory_top, rows_of, shares
from rowen.demo.verdict.memory import stack
from rowen.demo.verdict.objective import Target

START = 1_700_000_000.0


def drawing(outcomes, held, pool=(), riding=None):
    return Drawing(
        START, START + 60, "node/cpu1", outcomes, held, Target(99, 0.5), pool=pool, riding=riding, source="a trace"
    )


def height(path):
    """Of a PNG, in pixels."""
    return int.from_bytes(path.read_bytes()[20:24], "big")


def test_in_flight_counts_overlaps():
    times, counts = in_flight_steps([outcome(START, seconds=2.0), outcome(START + 1, seconds=2.0)], START)
    assert times == [0.0, 0.0, 1.0, 2.0, 3.0]
    assert counts == [0, 1, 2, 1, 0]


def test_shares_add_up_to_one():
    held = [((0.0, 1.0), "online"), ((1.0, 3.0), "offline"), ((3.0, 4.0), "none")]
    assert shares(held) == {"online": 0.25, "offline": 0.5, "none": 0.25}
    assert shares([]) == {"online": 0.0, "offline": 0.0, "none": 0.0}


@pytest.mark.parametrize("count", [0, 50])
def test_a_picture_is_drawn(tmp_path, count):
    source = random.Random(1)
    outcomes = [outcome(START + source.uniform(0, 50), ttft=source.uniform(0.03, 0.7)) for _ in range(count)]
    outcomes += [outcome(START + 5, ttft=None, tpot=None, error="reset")] if count else []
    held = [((START, START + 20), "online"), ((START + 20, START + 60), "offline")]
    path = tmp_path / "out" / "timeline.png"
    draw(drawing(outcomes, held), path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 10_000


def test_a_pool_has_a_panel_of_its_own(tmp_path):
    held = [((START, START + 60), "offline")]
    pool = [
        reading(START + at, used=at % 4, ahead=3, offline=20 - at % 4, free=5, reclaims=at // 4) for at in range(40)
    ]
    for name, given in (("without", []), ("with", pool)):
        draw(drawing([outcome(START)], held, given), tmp_path / f"{name}.png")
    assert height(tmp_path / "with.png") > height(tmp_path / "without.png")


@pytest.mark.parametrize("reclaims", [0, 1])
def test_panels_fill_the_picture_whether_or_not_memory_was_taken(reclaims):
    pool = [reading(START + at, used=1, ahead=3, offline=20, reclaims=reclaims * (at > 5)) for at in range(40)]
    figure = compose(drawing([outcome(START)], [((START, START + 60), "offline")], pool))
    figure.draw_without_rendering()
    assert len(figure.axes) == 4
    assert sum(axes.get_position().height for axes in figure.axes) > 0.6


def test_the_objective_is_named_above_the_panel_where_no_point_is():
    late = [outcome(START + at, ttft=0.6) for at in range(60)]
    figure = compose(drawing(late, [((START, START + 60), "online")]))
    figure.draw_without_rendering()
    panel = figure.axes[-1]
    legend = panel.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["SLO: p99 ≤ 500 ms"]
    assert legend.get_window_extent().y0 >= panel.get_window_extent().y1
    assert not panel.texts


def test_memory_that_nobody_has_does_not_dwarf_the_rest():
    crowded = stack([reading(0.0, used=10, offline=85, free=5), reading(20.0, offline=90, free=10)], 0.0, 30.0)
    assert memory_top(crowded) == 100.0
    empty = stack([reading(0.0, used=10, offline=90), reading(1.0, used=5, free=4000)], 0.0, 2.0)
    assert memory_top(empty) == pytest.approx(120.0)
    assert memory_top(stack([reading(0.0, free=4000)], 0.0, 2.0)) == 4000.0


def rows(held, riding):
    return [(row.label, pytest.approx(row.share)) for row in rows_of(drawing([], held, riding=riding))]


ONLINE, OFFLINE = "online serving", "offline jobs"
HELD = [((START, START + 15), "online"), ((START + 15, START + 60), "none")]


def test_without_riders_the_device_is_held_by_one_or_the_other():
    assert rows(HELD, None) == [(OFFLINE, 0.0), (ONLINE, 0.25)]


def test_riders_have_a_row_of_their_own_beside_the_requests():
    assert rows(HELD, [(START - 5, START + 30)]) == [("jobs, in its engine,\nby the second", 0.5), (ONLINE, 0.25)]


def test_where_nothing_is_known_to_have_ridden_there_is_no_such_row():
    assert rows(HELD, []) == [(ONLINE, 0.25)]


def test_a_job_beside_riders_is_not_hidden():
    held = [((START, START + 30), "online"), ((START + 30, START + 60), "offline")]
    found = rows(held, [(START, START + 30)])
    assert found == [(OFFLINE, 0.5), ("jobs, in its engine,\nby the second", 0.5), (ONLINE, 0.5)]


@pytest.mark.parametrize("riding", [[], [(START, START + 30)]])
def test_a_picture_with_riders_is_drawn(riding):
    figure = compose(drawing([outcome(START)], HELD, riding=riding))
    figure.draw_without_rendering()
    panel = figure.axes[1]
    assert panel.get_title(loc="left") == "For whom the device computes (node/cpu1)"
    assert len(panel.get_yticklabels()) == 1 + bool(riding)

import random

import numpy as np
import pytest

from rowen.runtime.coserve.planning.least_squares import LeastSquares


def rows(count: int, seed: int = 1) -> list[tuple[float, float]]:
    draw = random.Random(seed)
    return [(1.0, draw.uniform(1, 50)) for _ in range(count)]


def fitted(true: tuple[float, float], count: int = 100, noise: float = 0.0) -> LeastSquares:
    squares, draw = LeastSquares((1.0, 1.0)), random.Random(5)
    for row in rows(count):
        squares.observe(row, (true[0] * row[0] + true[1] * row[1]) * draw.gauss(1, noise))
    return squares


def test_starts_with_the_prior() -> None:
    squares = LeastSquares((2.0, 0.5))
    assert squares.coefficients == [2.0, 0.5]
    assert squares.value((1.0, 4.0)) == 4.0


def test_finds_the_coefficients() -> None:
    assert fitted((3.0, 0.2)).coefficients == pytest.approx([3.0, 0.2], rel=0.02)


def test_one_observation_counts_more_than_the_prior() -> None:
    squares = LeastSquares((1.0, 1.0))
    assert squares.observe((1.0, 4.0), 50.0)
    assert squares.value((1.0, 4.0)) == pytest.approx(50.0, rel=0.2)


def test_no_coefficient_is_negative() -> None:
    squares = LeastSquares((1.0, 1.0, 1.0))
    draw = random.Random(2)
    for row in rows(200):
        squares.observe((*row, 50 - row[1] + draw.random()), 5 + 0.3 * row[1])
    assert min(squares.coefficients) >= 0
    assert squares.value((1.0, 20.0, 30.5)) == pytest.approx(11.0, rel=0.02)


def test_noise_is_averaged_out() -> None:
    assert fitted((3.0, 0.2), 500, 0.1).value((1.0, 25.0)) == pytest.approx(8.0, rel=0.02)


def test_stalls_do_not_poison() -> None:
    squares, draw = LeastSquares((1.0, 1.0)), random.Random(5)
    for number, row in enumerate(rows(400)):
        seconds = (3.0 + 0.2 * row[1]) * draw.gauss(1, 0.02)
        squares.observe(row, 30 * seconds if number % 20 == 19 else seconds)
    assert squares.value((1.0, 25.0)) == pytest.approx(8.0, rel=0.02)


def test_errors_count_by_what_they_are_a_part_of() -> None:
    # Two kinds, of which the large one is off by 10 % either way: least squares of absolute errors would leave the
    # small one where the noise of the large one puts it.
    squares, draw = LeastSquares((1.0, 1.0)), random.Random(4)
    for _ in range(200):
        squares.observe((1.0, 1.0), 0.02 * draw.gauss(1, 0.01))
        squares.observe((1.0, 1000.0), 11.0 * draw.gauss(1, 0.1))
    assert squares.value((1.0, 1.0)) == pytest.approx(0.02, rel=0.01)


def test_what_is_long_ago_is_forgotten() -> None:
    squares = LeastSquares((1.0, 1.0), forgetting=0.95)
    for row in rows(200):
        squares.observe(row, 3.0 + 0.2 * row[1])
    for row in rows(200, seed=2):
        squares.observe(row, 2 * (3.0 + 0.2 * row[1]))
    assert squares.value((1.0, 25.0)) == pytest.approx(16.0, rel=0.03)


def test_a_slope_that_was_never_seen_is_as_its_neighbour() -> None:
    squares = LeastSquares((1.0, 1.0, 1.0), [(1, 2)])
    for row in rows(100):
        squares.observe((*row, 0.0), 1 + 0.01 * row[1])
    assert squares.coefficients[2] == pytest.approx(0.01, rel=0.1)


def test_neighbours_differ_where_they_were_seen() -> None:
    squares = LeastSquares((1.0, 1.0, 1.0), [(1, 2)])
    for row in rows(100):
        squares.observe((*row, 0.0), 1 + 0.01 * row[1])
        squares.observe((1.0, 50.0, row[1]), 1.5 + 0.1 * row[1])
    assert squares.coefficients == pytest.approx([1.0, 0.01, 0.1], rel=0.05)


def test_later_it_fits_every_eighth_time() -> None:
    squares = LeastSquares((1.0, 1.0))
    told = [squares.observe(row, 1 + row[1]) for row in rows(96)]
    assert told[:64] == [True] * 64
    assert told[64:] == ([False] * 7 + [True]) * 4


def test_it_is_the_least_squares() -> None:
    squares, draw = LeastSquares((1.0, 1.0), forgetting=1.0), random.Random(8)
    table = rows(64)
    values = [(3.0 + 0.2 * row[1]) * draw.gauss(1, 0.01) for row in table]
    for row, value in zip(table, values, strict=True):
        squares.observe(row, value)
    scaled = np.array(table) / np.array(values)[:, None]
    best = np.linalg.lstsq(scaled, np.ones(64), rcond=None)[0]
    assert squares.coefficients == pytest.approx(list(best), rel=0.002)

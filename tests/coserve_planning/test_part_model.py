import random

import pytest

from rowen.runtime.coserve.planning.part_model import MOST_TOKENS, PartModel


def part(tokens: int, context: int) -> float:
    return 0.001 + 0.0002 * tokens + 2e-7 * context


def taught(most: int = 200) -> PartModel:
    model, draw = PartModel(), random.Random(1)
    for _ in range(100):
        tokens = draw.randint(1, most)
        context = tokens * draw.randint(1, 400)
        model.observe(tokens, context, part(tokens, context))
    model.observe(most, most, part(most, most))
    return model


def test_learns_what_parts_take() -> None:
    assert taught().seconds(64, 6400) == pytest.approx(part(64, 6400), rel=0.03)


def test_the_largest_part_in_time() -> None:
    # 1 ms, and 0.24 ms for each token with 200 before it.
    assert taught().tokens(0.025, 200) == pytest.approx(100, abs=3)


def test_a_token_at_least() -> None:
    assert taught().tokens(0.0, 100) == 1


def test_at_most_twice_as_many_as_were_measured() -> None:
    assert PartModel().tokens(10.0, 0) == 8
    model = PartModel()
    model.observe(6, 6, 0.002)
    assert model.tokens(10.0, 0) == 12


def test_at_most_so_many() -> None:
    assert taught(400).tokens(100.0, 0) == MOST_TOKENS


def test_a_slower_machine_is_believed_soon() -> None:
    model, draw = taught(), random.Random(2)
    for _ in range(80):
        tokens = draw.randint(1, 200)
        model.observe(tokens, tokens, 2 * part(tokens, tokens))
    assert model.seconds(64, 64) == pytest.approx(2 * part(64, 64), rel=0.1)

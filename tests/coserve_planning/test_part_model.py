import random
from itertools import pairwise

import pytest

from rowen.runtime.coserve.planning.part_model import MOST_TOKENS, PartModel


def part(tokens: int, context: int) -> float:
    return 0.001 + 0.0002 * tokens + 2e-7 * context


def taught(most: int = 200, token_context: int = 200) -> PartModel:
    model, draw = PartModel(), random.Random(1)
    for _ in range(100):
        tokens = draw.randint(1, most)
        context = tokens * draw.randint(1, 400)
        model.observe(tokens, context, part(tokens, context))
    model.observe(most, most * token_context, part(most, most * token_context))
    return model


def test_learns_what_parts_take() -> None:
    assert taught().seconds(64, 6400) == pytest.approx(part(64, 6400), rel=0.03)


def test_the_largest_part_in_time() -> None:
    # 1 ms, and 0.24 ms for each token with 200 before it.
    assert taught().tokens(0.025) == pytest.approx(100, abs=3)
    assert taught(token_context=1000).tokens(0.025) == pytest.approx(60, abs=2)


def test_a_token_at_least() -> None:
    assert taught().tokens(0.0) == 1


def test_at_most_twice_as_many_as_were_measured() -> None:
    assert PartModel().tokens(10.0) == 8
    model = PartModel()
    model.observe(6, 6, 0.002)
    assert model.tokens(10.0) == 12


def test_at_most_so_many() -> None:
    assert taught(400).tokens(100.0) == MOST_TOKENS


def reading(tokens: int, token_seconds: float = 0.0002) -> float:
    """Of a part that reads weights for 20 ms."""
    return 0.02 + token_seconds * tokens


def test_where_weights_take_all_the_time_a_few_tokens_share_them() -> None:
    model, draw = PartModel(), random.Random(3)
    for _ in range(100):
        tokens = draw.randint(1, 100)
        model.observe(tokens, 0, reading(tokens))
    assert [model.tokens(seconds) for seconds in (0.0, 0.002, 0.02)] == [16] * 3
    # As time comes in there are never fewer.
    sizes = [model.tokens(0.019 + 0.0001 * tenth) for tenth in range(100)]
    assert sizes == sorted(sizes)
    assert max(larger - smaller for smaller, larger in pairwise(sizes)) <= 1
    assert sizes[-1] == pytest.approx(44, abs=2)


def test_tokens_that_are_dear_themselves_do_not_share_them() -> None:
    model, draw = PartModel(), random.Random(3)
    for _ in range(100):
        tokens = draw.randint(1, 100)
        model.observe(tokens, 0, reading(tokens, 0.001))
    # What they add is a quarter of what one takes at least.
    assert model.tokens(0.002) == pytest.approx(5, abs=1)


def test_another_guests_begin_with_what_is_known_and_soon_go_by_their_own() -> None:
    model = taught()
    other = model.newcomer()
    assert other.seconds(64, 6400) == model.seconds(64, 6400)
    assert other.least_seconds == model.least_seconds
    # It may be dearer: small ones first.
    assert other.tokens(1.0) == 8
    for tokens in (8, 16, 12):
        other.observe(tokens, 100 * tokens, 5 * part(tokens, 100 * tokens))
    assert other.seconds(14, 1400) == pytest.approx(5 * part(14, 1400), rel=0.15)
    assert model.seconds(64, 6400) == pytest.approx(part(64, 6400), rel=0.03)


def test_the_smallest_part_attends_to_what_the_last_one_did() -> None:
    assert taught(token_context=1000).least_seconds == pytest.approx(part(1, 1000), rel=0.05)


def test_a_slower_machine_is_believed_soon() -> None:
    model, draw = taught(), random.Random(2)
    for _ in range(80):
        tokens = draw.randint(1, 200)
        model.observe(tokens, tokens, 2 * part(tokens, tokens))
    assert model.seconds(64, 64) == pytest.approx(2 * part(64, 64), rel=0.1)

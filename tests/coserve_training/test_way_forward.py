"""Tokens on their way forward, whatever sizes of steps are asked for."""

import random

import pytest

from rowen.runtime.coserve.training.way_forward import LAYER_TOKENS, StepAhead, WayForward


class Checked:
    """A way of which is known in how many layers each token was; a step that is out of order fails."""

    def __init__(self, size: int, layers: int) -> None:
        self.way = WayForward(size, layers)
        self.layers = layers
        self.reached = [0] * size

    def take(self, step: StepAhead) -> int:
        assert 0 <= step.begin < step.end <= len(self.reached)
        assert step.first_layer < step.end_layer <= self.layers
        # Those that a token attends to were in a layer before it.
        assert all(before >= step.end_layer for before in self.reached[: step.begin])
        assert self.reached[step.begin : step.end] == [step.first_layer] * (step.end - step.begin)
        self.reached[step.begin : step.end] = [step.end_layer] * (step.end - step.begin)
        before = self.way.through
        self.way.went(step)
        assert self.way.through == sum(layers == self.layers for layers in self.reached)
        assert self.way.left == len(self.reached) - self.way.through
        return self.way.through - before


def part(way: WayForward, most_tokens: int) -> list[StepAhead]:
    steps = way.ahead(most_tokens)
    assert sum(step.work_tokens for step in steps) <= most_tokens
    return steps


@pytest.mark.parametrize("seed", range(40))
def test_every_token_is_once_in_every_layer_in_order(seed: int) -> None:
    draws = random.Random(seed)
    checked = Checked(draws.randint(1, 700), draws.randint(1, 6))
    riding, most, through = draws.random(), draws.choice([3, 40, 600]), 0
    while checked.way.left:
        tokens = draws.randint(1, most)
        if draws.random() < riding:
            step = checked.way.riding(tokens)
            assert step.end - step.begin <= tokens
            assert step.end_layer == checked.layers
            through += checked.take(step)
        else:
            through += sum(checked.take(step) for step in part(checked.way, tokens))
    assert through == len(checked.reached)
    assert set(checked.reached) == {checked.layers}


def test_windows_are_equally_large() -> None:
    checked = Checked(100, 1)
    found = []
    while checked.way.left:
        (step,) = part(checked.way, 49)
        checked.take(step)
        found.append(step.end - step.begin)
    # Not 49, 49 and 2, of which the last one takes nearly as long.
    assert found == [34, 33, 33]


def test_a_window_has_no_more_tokens_than_are_worth_it() -> None:
    way = WayForward(1000, 4)
    assert part(way, 900) == [StepAhead(0, 250, 0, 3)]
    assert way.riding(900) == StepAhead(0, 256, 0, 4)


@pytest.mark.parametrize(("most", "layers"), [(2, 1), (31, 1), (32, 2), (47, 2), (48, 3), (1000, 5)])
def test_few_tokens_are_in_no_more_layers_than_many_would(most: int, layers: int) -> None:
    (step,) = part(WayForward(2, 5), most)
    assert (step.layers, step.work_tokens) == (layers, 2 if layers == 1 else layers * LAYER_TOKENS)


def test_later_windows_are_in_as_many_layers_as_the_first() -> None:
    checked = Checked(500, 4)
    assert checked.take(checked.way.riding(250)) == 250
    assert part(checked.way, 500) == [StepAhead(250, 500, 0, 2)]


def test_the_rest_of_a_layer_and_more_layers_are_one_part() -> None:
    checked = Checked(40, 9)
    for step in part(checked.way, 40):
        checked.take(step)
    for step in part(checked.way, 10):
        checked.take(step)
    assert checked.way.ahead(69) == [StepAhead(10, 40, 1, 2)]
    assert checked.way.ahead(70) == [StepAhead(10, 40, 1, 2), StepAhead(0, 40, 2, 3)]
    assert part(checked.way, 110) == [StepAhead(10, 40, 1, 2), StepAhead(0, 40, 2, 4)]


def test_a_short_rest_of_a_layer_takes_as_long_as_sixteen_tokens() -> None:
    checked = Checked(40, 9)
    for most in (40, 33):
        (step,) = part(checked.way, most)
        checked.take(step)
    rest = StepAhead(33, 40, 1, 2)
    assert rest.end - rest.begin < LAYER_TOKENS
    assert checked.way.ahead(LAYER_TOKENS + 39) == [rest]
    assert checked.way.ahead(LAYER_TOKENS + 40) == [rest, StepAhead(0, 40, 2, 3)]


def test_in_the_last_layer_tokens_are_through_piece_by_piece() -> None:
    checked = Checked(40, 2)
    (step,) = part(checked.way, 40)
    assert checked.take(step) == 0
    for tokens in (7, 7, 7):
        (step,) = part(checked.way, tokens)
        assert checked.take(step) == 7
    assert checked.way.riding(5) == StepAhead(21, 26, 1, 2)
    (step,) = part(checked.way, 100)
    assert checked.take(step) == 19

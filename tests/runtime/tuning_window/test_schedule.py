"""When each layer is needed next."""

from itertools import cycle, islice

import pytest

from rowen.runtime.tuning.window.schedule import Phase, Position, cost_tokens, distances


def passes(phase: Phase, layers: int) -> list[Position]:
    """A round of passes."""
    if phase is Phase.EVALUATION:
        return [Position(phase, layer) for layer in range(layers)]
    back = [Position(Phase.BACKWARD, layer) for layer in reversed(range(layers))]
    return [Position(Phase.FORWARD, layer) for layer in range(layers)] + back


@pytest.mark.parametrize("layers", [1, 2, 5])
@pytest.mark.parametrize("phase", [Phase.EVALUATION, Phase.FORWARD])
def test_distances_are_those_to_the_next_pass(phase: Phase, layers: int) -> None:
    whole = passes(phase, layers)
    for number, position in enumerate(whole):
        following = [coming.layer for coming in islice(cycle(whole), number, number + 2 * len(whole))]
        assert distances(position, layers) == [following.index(layer) for layer in range(layers)]


def test_a_pass_that_runs_is_lost_as_a_whole_and_later_ones_less() -> None:
    assert [cost_tokens(distance, 600) for distance in range(4)] == [600, 300, 200, 150]
    assert cost_tokens(0, 0) == 0

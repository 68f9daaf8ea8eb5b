"""What a loss makes worthless."""

import pytest

from rowen.runtime.vllm.elastic.loss import Holding, affected


@pytest.mark.parametrize(
    ("lost", "holdings", "requests", "blocks"),
    [
        ({9}, {"a": Holding([1, 2], 1)}, set(), {9}),
        # What the request finished before is as good as ever, what it was at is not.
        ({2}, {"a": Holding([1, 2, 3, 4], 2)}, {"a"}, {2, 3, 4}),
        ({2}, {"a": Holding([1, 2, 3, 4], 3)}, {"a"}, {2, 4}),
        ({2}, {"a": Holding([1, 2, 3, 4], 4)}, {"a"}, {2}),
        ({2}, {"a": Holding([1, 2], 1), "b": Holding([3], 0)}, {"a"}, {2}),
        # A shared prefix.
        ({1}, {"a": Holding([1, 2], 2), "b": Holding([1, 3], 1)}, {"a", "b"}, {1, 3}),
        # "b" found what "a" was writing, and "c" what "b" was: they are told apart by other first blocks.
        (
            {1},
            {"c": Holding([8, 4, 5], 2), "b": Holding([7, 3, 4], 1), "a": Holding([1, 3], 1), "d": Holding([8, 6], 1)},
            {"a", "b", "c"},
            {1, 3, 4, 5},
        ),
        # The null block in a window that has passed is nobody's content.
        ({1}, {"a": Holding([0, 0, 1], 0), "b": Holding([0, 5], 0)}, {"a"}, {1}),
    ],
)
def test_requests_and_blocks(
    lost: set[int], holdings: dict[str, Holding], requests: set[str], blocks: set[int]
) -> None:
    assert affected(lost, holdings) == (requests, blocks)

"""Devices of many nodes side by side."""

from dataclasses import replace

from scheduler.builders import GIB, device, node

from rowen.scheduler.side_by_side import counts, side_by_side


def test_figures_stand_in_the_order_of_ids() -> None:
    views = [
        node("a", device("a", "g1", idle=0.25, online_memory=None), device("a", "g0", idle=0.5, attached=False)),
        replace(node("b"), devices=()),
        node("c", device("c", idle=0.75, deviation=0.5, memory=4 * GIB, online_memory=GIB, available=(1, 2))),
    ]
    first, second, last = side_by_side(views).tolist()
    assert counts(views).tolist() == [2, 0, 1]
    assert [first[0], second[0]] == [0.5, 0.25]
    assert [first[3:6], second[3:6]] == [[6.0 * GIB, 1.0, 0.0], [0.0, 0.0, 0.0]]
    assert last == [0.75, 0.5, 4.0 * GIB, 3.0 * GIB, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0]


def test_no_nodes_have_no_figures() -> None:
    assert side_by_side([]).shape == (0, 11)
    assert counts([]).tolist() == []


def test_an_outline_has_the_most_of_each_part_of_the_time() -> None:
    """Eight numbers make four parts of two; three do not part evenly, so the most of all stands for each."""
    views = [device("n", f"g{at}", available=lent) for at, lent in enumerate([(), (1, 2, 3), (1, 2, 3, 4, 5, 6, 7, 8)])]
    found = side_by_side([node("n", *views)])
    assert found[:, 7:].tolist() == [[0.0] * 4, [3.0] * 4, [2.0, 4.0, 6.0, 8.0]]

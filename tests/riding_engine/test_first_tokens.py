"""What requests wait for their first token, and how much of it is riders' doing."""

from types import SimpleNamespace
from typing import Any

import pytest

from rowen.runtime.vllm.riding.first_tokens import FirstTokens


def step(*names: str, ended: tuple[str, ...] = ()) -> Any:
    """One that reads the ten tokens of each of these prompts."""
    return SimpleNamespace(
        finished_req_ids=set(ended),
        scheduled_cached_reqs=SimpleNamespace(req_ids=[], num_computed_tokens=[]),
        scheduled_new_reqs=[SimpleNamespace(req_id=name, num_computed_tokens=0) for name in names],
        num_scheduled_tokens=dict.fromkeys(names, 10),
    )


def test_all_that_riders_had_of_a_long_wait_counts() -> None:
    found = FirstTokens()
    found.arrived("a", 0.0, 10)
    for number in range(1000):
        found.ridden(number * 0.01, number * 0.01 + 0.005)
    found.begin(step("a"))
    assert found.finish(10.0) == [(10.0, pytest.approx(5.0))]


def test_of_what_riders_had_when_it_came_the_rest_counts() -> None:
    found = FirstTokens()
    found.ridden(1.0, 2.0)
    found.ridden(3.0, 5.0)
    # The engine is told of the first after the stretch that it came in, of the second before.
    found.arrived("a", 4.5, 10)
    found.arrived("b", 6.25, 10)
    found.ridden(6.0, 7.0)
    found.begin(step("a", "b"))
    assert found.finish(8.0) == [(3.5, pytest.approx(1.5)), (1.75, pytest.approx(0.75))]
    assert found.finish(9.0) == []


def test_who_comes_after_a_stretch_has_nothing_of_it() -> None:
    found = FirstTokens()
    found.arrived("a", 4.0, 10)
    found.ridden(1.0, 2.0)
    found.begin(step("a"))
    assert found.finish(5.0) == [(1.0, pytest.approx(0.0))]


def test_who_goes_away_is_not_waited_for() -> None:
    found = FirstTokens()
    found.arrived("a", 0.0, 10)
    found.begin(step(ended=("a",)))
    found.begin(step("a"))
    assert found.finish(5.0) == []

"""What rides in a real engine changes nothing of its answers, and is computed as it would be alone."""

import pytest
from riding_engine.conftest import Results

NAMES = (
    "riders_get_on_and_nobody_notices", "results_are_those_of_the_learner_alone", "adapters_of_all_kinds_ride_at_once",
    "prompts_that_the_cache_has_are_answered_the_same", "prompts_are_not_deferred_unasked",
    "a_guest_that_leaves_is_forgotten", "an_idle_engine_works_it_all_through",
    "riders_stand_still_while_the_lease_has_run_out", "a_task_that_does_not_fit_is_refused",
    "a_learner_that_fails_ends_the_riding_and_not_the_step",
)  # fmt: skip
"""Written out: to import them is to import vLLM."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_riders(results: Results, name: str) -> None:
    assert results[name] is None, results[name]


def test_no_scenario_is_left_out(results: Results) -> None:
    assert tuple(results) == NAMES

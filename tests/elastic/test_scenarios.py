"""A real engine loses memory in the middle of its steps."""

import pytest
from elastic.conftest import Results
from elastic.modes import MODES

SCENARIOS = [
    "undisturbed", "one_row_wants_little", "counted", "a_handle_at_a_time", "some_at_random", "everything",
    "in_the_last_step_of_each", "found_as_a_prefix", "aborted", "while_idle", "halves", "bursts",
    "beside_one_that_grows", "scarce", "scarce_and_patient", "the_grant_comes_and_goes",
    "too_little_for_one", "too_little_room_for_one", "forgotten_prefixes",
]  # fmt: skip
"""Written out: to import them is to import vLLM."""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("mode", MODES)
def test_every_answer_is_that_of_an_undisturbed_engine(results: Results, mode: str, scenario: str) -> None:
    assert results[mode][scenario] is None, results[mode][scenario]


def test_no_scenario_is_left_out(results: Results) -> None:
    assert {tuple(found) for found in results.values()} == {tuple(SCENARIOS)}

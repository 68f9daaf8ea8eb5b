"""Prompts that wait for one another in a real engine in which fine-tuning rides."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from riding_engine.conftest import Results
from runtime.server import environment

NAMES = (
    "two_prompts_in_a_row_are_computed_in_one_step", "without_deferral_each_has_a_step",
    "as_many_as_fill_a_step_wait_no_longer", "nobody_waits_while_nothing_rides",
    "with_nothing_else_to_compute_fine_tuning_has_the_engine", "once_fine_tuning_is_through_nobody_waits",
    "who_leaves_while_held_is_gone", "all_that_wait_are_unfinished_and_can_be_paused", "sleep_ends_them",
    "who_was_preempted_goes_on_before_them_and_at_once", "batch_rows_go_on_beside_them", "no_row_begins_before_them",
    "a_policy_that_fails_holds_nobody",
    "a_step_that_fails_loses_nobody", "who_waits_when_riding_ends_is_computed",
)  # fmt: skip
"""Written out: to import them is to import vLLM."""


@pytest.fixture(scope="module")
def found(model: Path, adapter: Path) -> Results:
    """By scenario None, or what went wrong; one after another that went wrong is missing."""
    script = Path(__file__).with_name("deferring.py")
    ended = subprocess.run([sys.executable, script, model, adapter], capture_output=True, text=True, env=environment())
    assert ended.returncode == 0, ended.stderr[-4000:]
    results: Results = json.loads(ended.stdout.splitlines()[-1])
    return results


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_prompts_wait_for_one_another(found: Results, name: str) -> None:
    assert found[name] is None, found[name]


def test_no_scenario_is_left_out(found: Results) -> None:
    assert tuple(found) == NAMES

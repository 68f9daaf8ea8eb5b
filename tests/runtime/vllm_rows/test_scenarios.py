"""Batch rows and online requests in a real engine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from runtime.server import environment

SCENARIOS = [
    "online_steps_are_the_same", "rows_keep_to_their_tokens", "nothing_rides_while_there_is_no_room",
    "online_takes_blocks_at_once", "a_row_that_begins_leaves_blocks",
    "rows_keep_blocks_that_would_not_be_enough", "rows_give_way_to_as_many_as_there_are_seats",
    "rows_that_are_aborted_leave_nothing", "a_pace_that_fails_leaves_the_idle_engine",
    "rows_that_begin_alike_are_read_once", "rows_stand_still_while_the_lease_has_run_out",
    "memory_that_goes_changes_no_answer", "rows_keep_blocks_that_online_requests_have_too",
    "rows_keep_blocks_that_a_request_finds", "a_row_that_does_not_fit_lets_others_begin",
    "no_more_than_a_few_are_tried", "a_row_that_many_passed_has_the_next_blocks",
    "a_row_that_cannot_have_enough_keeps_nobody_waiting", "vllm_sees_few_of_those_that_wait",
    "running_rows_wait_again_when_the_cache_is_reset", "prompts_with_logits_are_read_in_small_pieces",
    "a_row_that_wants_nearly_all_blocks_begins", "rows_keep_blocks_below_the_watermark",
    "no_more_run_than_may_be_active", "online_requests_wait_for_memory_once_rows_have_ended",
]  # fmt: skip
"""Written out: to import them is to import vLLM."""
MODES = ["synchronous", "asynchronous", "elastic"]

Results = dict[str, dict[str, str | None]]


@pytest.fixture(scope="module")
def results(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """By way of scheduling and scenario None, or what went wrong; a scenario after one that went wrong is missing."""
    config = json.loads((tiny_model / "config.json").read_text())
    folder = tmp_path_factory.mktemp("float32") / "tiny"
    folder.mkdir()
    for path in tiny_model.iterdir():
        (folder / path.name).symlink_to(path)
    (folder / "config.json").unlink()
    (folder / "config.json").write_text(json.dumps({**config, "dtype": "float32"}))
    command = [sys.executable, Path(__file__).with_name("run.py"), folder]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert ended.returncode == 0, ended.stderr[-4000:]
    found: Results = json.loads(ended.stdout.splitlines()[-1])
    return found


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("mode", MODES)
def test_rows_ride_below_online_requests(results: Results, mode: str, scenario: str) -> None:
    assert results[mode][scenario] is None, results[mode][scenario]


def test_no_scenario_is_left_out(results: Results) -> None:
    assert {tuple(sorted(found)) for found in results.values()} == {tuple(sorted(SCENARIOS))}

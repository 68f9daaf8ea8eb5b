"""The report of a run in which jobs rode in the engine."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from demo_runs import START, riding, run
from outcomes import outcome
from rich.console import Console

from rowen.demo.mode import Mode
from rowen.demo.show.files import write
from rowen.demo.show.report import make_report
from rowen.demo.show.terminal import show, show_next
from rowen.demo.verdict.finding import Cause
from rowen.demo.verdict.riding import Ridden
from rowen.demo.verdict.timeline import ServedRequest, Transition

LATE = "time to first token within the objective"
RODE = "all jobs rode in the engine"
ONCE = "no request met more than one preemption"


def device(given):
    return given.world.devices["rowen-node-1", "cpu1"]


def failing(given):
    return [check.name for check in make_report(given).checks if not check.passed]


def check_of(given, name):
    return next(check for check in make_report(given).checks if check.name == name)


def test_a_good_run_passes_and_says_what_rode():
    given = riding()
    assert failing(given) == []
    (summary,) = make_report(given).devices
    assert summary.riding.share == pytest.approx(0.5)
    assert summary.riding.ridden == Ridden(forward=100, solo=200, backward=300, rows=50, steps=40, riding_steps=20)
    assert (summary.memory, summary.offline_share, summary.preemptions) == (None, 0.0, 0)
    # From before the replay, too: jobs ride as soon as they have a place.
    assert "450 tokens of fine-tuning forward, 150 of them in its steps" in check_of(given, RODE).evidence


def test_what_is_of_turns_is_not_checked():
    names = {check.name for check in make_report(riding()).checks}
    assert names.isdisjoint({"preemptions happened", "memory changed its owner", ONCE})
    assert RODE not in {check.name for check in make_report(run()).checks}


def test_stops_of_a_job_that_does_not_ride_are_checked():
    given = riding()
    device(given).see([Transition(1004.5, 1004.6, 1005.0, 0.1, 1)], [ServedRequest(1005.0, 0.07, 0.02, 2, True)])
    assert failing(given) == [ONCE]


@pytest.mark.parametrize("modes", [{}, {"support-lora": Counter({"CoServe": 9, "Preempt": 1})}])
def test_a_job_that_was_not_in_the_engine_fails_the_run(modes):
    given = riding()
    given.world.modes = modes
    assert failing(given) == [RODE]


def test_without_a_reading_nothing_rode():
    given = riding()
    device(given).rides = []
    assert failing(given) == [RODE]
    assert make_report(given).devices[0].riding is None


def slow(rode):
    """Two hundred requests that miss the objective, the first `rode` of them while jobs ride."""
    given = riding()
    starts = [START + 2 * at for at in range(200)]
    record = device(given)
    record.transitions, record.requests = {}, {}
    record.see(
        [Transition(at, at, at + 1, 0.0, 0) for at in starts],
        [ServedRequest(at + 1, 0.9 + at / 1e6, 0.02, 0, True) for at in starts],
    )
    first, last = record.rides[0], record.rides[-1]
    record.rides = [first, replace(last, at=START + 2 * rode - 0.5), replace(last, at=START + 500)]
    outcomes = [outcome(at, seconds=1.0, ttft=0.9) for at in starts]
    return replace(given, outcomes=outcomes, expected_requests=len(outcomes), seconds=400.0)


@pytest.mark.parametrize(
    ("rode", "cause", "because"),
    [
        (200, Cause.UNKNOWN, "0 of the 0 others: too few of those to compare with"),
        (101, Cause.UNKNOWN, "99 of the 99 others: too few of those to compare with"),
        (100, Cause.SERVICE, "100 of the 100 others; those above it found 0 others in flight"),
    ],
)
def test_a_missed_objective_is_the_services_only_by_requests_without_riders(rode, cause, because):
    check = check_of(slow(rode), LATE)
    assert check.cause is cause
    assert f"{rode} of {rode} requests of busy times in which jobs rode in the engine, {because}" in check.evidence


def test_where_the_agent_did_not_tell_what_rode_nobody_is_to_blame():
    given = slow(100)
    device(given).rides = device(given).rides[:-1]
    check = check_of(given, LATE)
    assert check.cause is Cause.UNKNOWN
    assert "did not tell throughout what rode" in check.evidence


def test_the_report_is_shown(tmp_path):
    given = riding()
    console = Console(record=True, width=200)
    show(make_report(given), given, console)
    show_next(Mode.CO_SERVE, "default", tmp_path, console)
    text = console.export_text()
    assert "FAIL" not in text
    assert "serving 20% of the time; while requests were replayed jobs rode in 20 of its engine's 40 steps" in text
    assert "seconds in which anything rode" in text
    assert "by reports a second apart: 50% of the time)" in text
    assert "tokens of fine-tuning: 100 forward in steps, 200 outside of them, 300 backward; of batch rows: 50" in text
    assert "stopped in" not in text
    assert "of the pool" not in text
    assert "kubectl rowen top" in text
    assert "MODE=CoServe" not in text


def test_report_and_picture_are_written(tmp_path):
    given = riding()
    write(given, make_report(given), tmp_path)
    written = json.loads((tmp_path / "report.json").read_text())
    assert written["mode"] == "CoServe"
    assert written["devices"][0]["riding"]["ridden"]["rows"] == 50
    assert (tmp_path / "timeline.png").exists()


def some(count, late):
    return [outcome(START + 6 * at, seconds=1.0, ttft=0.9 if at < late else 0.05) for at in range(count)]


@pytest.mark.parametrize(
    ("late", "alone", "cause"), [(20, 20, Cause.SERVICE), (60, 20, Cause.TENANT), (10, 1, Cause.TENANT)]
)
def test_a_missed_objective_is_compared_with_the_same_requests_before_there_were_jobs(late, alone, cause):
    given = replace(riding(), outcomes=some(300, late), alone=some(300, alone), expected_requests=300)
    check = check_of(given, LATE)
    assert (check.passed, check.cause) == (False, cause)
    assert f"{late} of 300 requests, and {alone} of the same ones before there were jobs" in check.evidence


def test_a_request_is_compared_with_itself_where_it_was_answered_both_times():
    alone = some(300, 20)
    # Were the others not left out one by one, none of those that are late would be compared with itself.
    alone[0], alone[299] = (replace(one, error="gone") for one in (alone[0], alone[299]))
    outcomes = some(300, 20)
    outcomes[150] = replace(outcomes[150], error="gone too")
    check = check_of(replace(riding(), outcomes=outcomes, alone=alone, expected_requests=300), LATE)
    assert check.cause is Cause.SERVICE
    assert "19 of 297 requests, and 19 of the same ones" in check.evidence
    assert "2 were not answered then" in check.evidence


def test_requests_of_before_that_are_others_are_not_compared():
    given = replace(riding(), outcomes=some(300, 20), alone=some(299, 20), expected_requests=300)
    assert "before there were jobs" not in check_of(given, LATE).evidence


def test_a_replayer_that_had_no_time_before_leaves_it_open():
    alone = [replace(one, lateness=0.2) for one in some(300, 20)]
    check = check_of(replace(riding(), outcomes=some(300, 20), alone=alone, expected_requests=300), LATE)
    assert check.cause is Cause.BUSY
    assert "before there were jobs the replayer sent its requests 200.0 ms (p50)" in check.evidence


def test_what_the_service_took_before_there_were_jobs_is_shown_and_written(tmp_path):
    given = replace(riding(), alone=[outcome(900.0, ttft=0.123, tpot=0.0456)])
    report = make_report(given)
    console = Console(width=200, record=True)
    show(report, given, console)
    text = console.export_text()
    assert "before there were jobs" in text
    assert "123 ms" in text
    assert "46 ms" in text
    assert "Before there were jobs 1 of 1 requests were answered; the replayer sent" in text
    write(given, report, tmp_path)
    (written,) = json.loads((tmp_path / "report.json").read_text())["alone"]
    assert (written["arrival"], written["ttft"], written["tpot"]) == (900.0, 0.123, 0.0456)
    console = Console(width=200, record=True)
    show(make_report(riding()), riding(), console)
    assert "before there were jobs" not in console.export_text()

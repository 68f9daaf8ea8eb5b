import json
from dataclasses import replace

import pytest
from demo_runs import START, finished, harvest, run, world
from outcomes import outcome
from pools import MIB, reading
from rich.console import Console

from rowen.cluster import environment
from rowen.demo.mode import Mode
from rowen.demo.show.files import write
from rowen.demo.show.report import make_report
from rowen.demo.show.terminal import show, show_next
from rowen.demo.show.world import World
from rowen.demo.verdict.checks import PodEvidence
from rowen.demo.verdict.finding import Cause
from rowen.demo.verdict.objective import Objective, Target
from rowen.demo.verdict.timeline import ServedRequest, Transition

LATE = "time to first token within the objective"


def busy(*, followers=0.9, stopped=0.001, first=0.1, tenants=1):
    """Sixty bursts of five requests, the first of which meets a stop; latencies of the others, in seconds."""
    known = world()
    record = known.devices["rowen-node-1", "cpu1"]
    starts = [START + 3 * burst for burst in range(60)]
    record.transitions, record.requests = {}, {}
    record.see(
        [Transition(at + 0.002, at + 0.002 + stopped, at + 2, stopped, tenants) for at in starts],
        [ServedRequest(at + 1, 0.05 + at / 1e6, 0.02, 1, bool(tenants)) for at in starts]
        + [ServedRequest(at + 1, 0.06 + at / 1e6 + i / 1e9, 0.02, 0, bool(tenants)) for at in starts for i in range(4)],
    )
    outcomes = [outcome(at + 0.2 * i, seconds=1.0, ttft=followers if i else first) for at in starts for i in range(5)]
    return run(world=known, outcomes=outcomes, expected_requests=len(outcomes), seconds=180.0)


def check_of(given, name=LATE):
    return next(check for check in make_report(given).checks if check.name == name)


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({}, Cause.SERVICE),
        ({"tenants": 0}, Cause.SERVICE),
        ({"followers": 0.1, "first": 0.9}, Cause.TENANT),
        ({"followers": 0.6, "first": 0.6, "stopped": 0.2}, Cause.TENANT),
    ],
)
def test_a_missed_objective_says_whose_fault_it_is(changes, cause):
    given = busy(**changes)
    assert check_of(given).cause is cause
    assert failing(make_report(given)) == [LATE, *(["preemptions happened"] if changes.get("tenants") == 0 else [])]


def test_a_request_that_failed_holds_its_stop_against_offline_work_too():
    """It met the stop that the others waited behind."""
    given = busy(followers=0.6, first=0.6, stopped=0.2)
    failed = [replace(one, error="reset") if index % 5 == 0 else one for index, one in enumerate(given.outcomes)]
    assert check_of(replace(given, outcomes=failed)).evidence.startswith("p99 of 240 requests")


def test_on_two_devices_nobody_is_to_blame():
    given = busy()
    given.world.devices["rowen-node-2", "cpu1"] = given.world.devices["rowen-node-1", "cpu1"]
    assert check_of(given).cause is Cause.UNKNOWN
    assert "2 devices" in check_of(given).evidence


def test_stops_that_the_agent_did_not_see_leave_the_fault_open():
    given = busy()
    record = given.world.devices["rowen-node-1", "cpu1"]
    record.see([replace(transition, tenants=0) for transition in record.transitions.values()], [])
    assert "the agent counted 60 requests that met offline work" in check_of(given).evidence


def test_each_latency_is_held_against_its_own_objective():
    given = busy(followers=0.1)
    assert failing(make_report(given)) == []
    strict = replace(given, objective=Objective(Target(99, 0.5), Target(50, 0.019)))
    assert failing(make_report(strict)) == ["time per output token within the objective"]


@pytest.mark.parametrize(("changes", "mark"), [({}, "SLOW"), ({"followers": 0.1, "first": 0.9}, "FAIL")])
def test_a_machine_that_is_too_slow_is_marked_apart(changes, mark):
    given = busy(**changes)
    console = Console(record=True, width=400)
    report = make_report(given)
    show(report, given, console)
    lines = console.export_text().splitlines()
    assert [line.split()[0] for line in lines if LATE in line] == [mark]
    assert report.passed is (mark == "SLOW")
    count, missed = len(report.checks), len(failing(report))
    slow = f"{count - missed} of {count} checks hold; for the other {missed} this machine is too slow."
    assert lines[-1] == (slow if mark == "SLOW" else f"{missed} of {count} checks do not hold.")


def overloaded(late):
    """The agent counts other requests than its record of the gate shows, as it does where everything is late."""
    given = busy()
    record = given.world.devices["rowen-node-1", "cpu1"]
    record.see([replace(transition, tenants=0) for transition in record.transitions.values()], [])
    return replace(given, outcomes=[replace(one, lateness=late) for one in given.outcomes])


@pytest.mark.parametrize(("late", "mark"), [(0.11, "BUSY"), (0.09, "FAIL")])
def test_a_machine_that_is_too_busy_to_judge_on_is_marked_so_and_never_passes(late, mark):
    """That none of the others holds fails it all the same."""
    given = overloaded(late)
    report, console = make_report(given), Console(record=True, width=600)
    assert not report.passed
    show(report, given, console)
    text = console.export_text()
    assert [line.split()[0] for line in text.splitlines() if LATE in line] == [mark]
    assert f"\nThe replayer sent its requests {late * 1000:.1f} ms (p50) and {late * 1000:.1f} ms (p99) late" in text
    assert text.splitlines()[-1].endswith("checks do not hold.")


def test_where_only_a_busy_machine_stands_against_it_the_run_is_to_be_repeated():
    given = busy()
    record = given.world.devices["rowen-node-1", "cpu1"]
    record.requests = {}
    record.see([], [ServedRequest(START + 1 + i, 0.05 + i / 1e6, 0.02, 1, tenant_present=True) for i in range(300)])
    given = replace(given, outcomes=[replace(one, lateness=0.11) for one in given.outcomes])
    report, console = make_report(given), Console(record=True, width=600)
    assert failing(report) == [LATE]
    assert not report.passed
    show(report, given, console)
    assert [line.split()[0] for line in console.export_text(clear=False).splitlines() if LATE in line] == ["BUSY"]
    assert "run it again with less beside it" in console.export_text().splitlines()[-1]


def test_one_that_fails_beside_a_slow_one_fails_the_run():
    report = make_report(replace(busy(), found=PodEvidence(adapter_error="no pod")))
    assert any(check.slow for check in report.checks)
    assert not report.passed


def test_the_last_line_counts_what_does_not_hold():
    missed = replace(run(), found=PodEvidence(adapter_error="no pod"))
    report = make_report(missed)
    console = Console(record=True, width=40)
    show(report, missed, console)
    last = console.export_text().splitlines()[-1]
    assert last == f"{len(failing(report))} of {len(report.checks)} checks do not hold."
    assert len(failing(report)) == 3


def failing(report):
    return [check.name for check in report.checks if not check.passed]


def test_a_good_run_passes():
    report = make_report(run())
    assert failing(report) == []
    assert report.passed
    device = report.devices[0]
    assert (device.name, device.preemptions) == ("rowen-node-1/cpu1", 2)
    assert device.online_share == pytest.approx(0.2)
    assert device.offline_share == pytest.approx(0.8)
    assert device.harvested_of_idle == pytest.approx(1.0)


def test_preemptions_outside_the_replay_do_not_count():
    assert "preemptions happened" in failing(make_report(run(started=2000.0)))


def test_requests_from_before_the_replay_do_not_count():
    assert "no request met more than one preemption" in failing(make_report(run(started=2000.0)))


def test_another_services_device_does_not_count():
    other = world()
    other.devices["rowen-node-1", "cpu1"].harvest = harvest("other")
    report = make_report(run(world=other))
    assert report.devices == ()
    assert "preemptions happened" in failing(report)


@pytest.mark.parametrize("reason", ["OutOfMemory", "DatasetMissing"])
def test_a_failed_job_fails_the_run(reason):
    failed = world()
    failed.jobs["support-lora"] = finished(reason)
    assert failing(make_report(run(world=failed))) == ["support-lora finished"]


def test_a_missing_job_fails_the_run():
    missing = world()
    del missing.jobs["nightly-summaries"]
    assert failing(make_report(run(world=missing))) == ["nightly-summaries finished"]


def test_report_and_picture_are_written(tmp_path):
    report = make_report(run())
    write(run(), report, tmp_path)
    written = json.loads((tmp_path / "report.json").read_text())
    assert (written["passed"], written["mode"]) == (True, "Preempt")
    assert len(written["outcomes"]) == 2
    assert written["objective"]["ttft"] == {"percentile": 99, "seconds": 0.5}
    assert "CC BY 4.0" in written["traffic"]
    assert written["pools"]["rowen-node-1/cpu1"][1]["used"] == 10 * MIB
    assert written["devices"][0]["memory"]["reclaimed"] == 8 * MIB
    assert (tmp_path / "timeline.png").exists()


def test_an_empty_run_is_written_as_json(tmp_path):
    empty = run(outcomes=[], world=World(since=0.0), found=PodEvidence(adapter_error="no pod"))
    write(empty, make_report(empty), tmp_path)
    assert json.loads((tmp_path / "report.json").read_text())["latency"]["ttft_p99"] is None


def test_the_report_is_shown(tmp_path):
    console = Console(record=True, width=160)
    show(make_report(run()), run(), console)
    show_next(Mode.PREEMPT, "default", tmp_path, console)
    text = console.export_text()
    assert "FAIL" not in text
    assert f"All {len(make_report(run()).checks)} checks hold." in text
    assert "6.9000 before, 4.2000 after" in text
    assert "p99 ≤ 500 ms" in text
    assert "kubectl rowen explain" in text
    assert "make down" in text
    assert "make demo MODE=CoServe" in text
    assert "had up to 12 MiB, in use up to 10, offline jobs up to 96; 8 reclaims took 8 MiB back" in text


def test_what_to_paste_is_one_line_however_narrow_the_terminal_is(tmp_path):
    console = Console(record=True, width=40)
    show_next(Mode.PREEMPT, "default", tmp_path, console)
    assert environment.line() in [line.strip() for line in console.export_text().splitlines()]


@pytest.mark.parametrize(
    ("readings", "evidence"),
    [
        ([], "no agent tells"),
        ([reading(1001.0, ahead=4, free=96)], "up to 0 MiB"),
        ([reading(1001.0, offline=96)], "0 MiB were taken back"),
        (
            [reading(1001.0, offline=96, reclaims=7), reading(1002.0, used=2, offline=94, reclaims=7)],
            "0 MiB were taken back",
        ),
    ],
)
def test_memory_that_did_not_change_its_owner_fails_the_run(readings, evidence):
    given = run()
    given.world.devices["rowen-node-1", "cpu1"].pool = readings
    assert failing(make_report(given)) == ["memory changed its owner"]
    assert evidence in check_of(given, "memory changed its owner").evidence

"""The status that is written, and when."""

from dataclasses import replace

import pytest
from scheduler.builders import NOW, POLICY, device, job, node, not_started, outcome, placed, run

from rowen.crds.job.offline_job_status import OfflineJobStatus
from rowen.kube.timestamps import rfc3339
from rowen.scheduler.decision import Outcome
from rowen.scheduler.history import History, Track
from rowen.scheduler.model.profile import Profile
from rowen.scheduler.monitor.backoff import Backoff
from rowen.scheduler.snapshot import JobView
from rowen.scheduler.world.status import Wanted, manifest, owned, wanted, worth_writing


def status_of(found: Outcome, history: History | None = None, now: float = NOW) -> Wanted:
    return wanted(found, (), history or History(), now, POLICY)


def stored(view: JobView, written: Wanted) -> JobView:
    """The job as it is read back after the write."""
    return replace(view, status=OfflineJobStatus.from_wire(written.to_wire()))


def said(written: Wanted) -> dict[str, tuple[str, str]]:
    return {condition.type: (condition.status, condition.reason) for condition in written.conditions}


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (job("j"), {"Admitted": ("True", "Profiling"), "Placed": ("True", "Placed")}),
        (
            job("j", sla=0.2),
            {"Admitted": ("True", "Profiling"), "Placed": ("True", "Placed"), "SLAMet": ("Unknown", "Profiling")},
        ),
        (
            job("j", sla=0.2, counts_tokens=False),
            {"Admitted": ("True", "Admitted"), "Placed": ("True", "Placed"), "SLAMet": ("Unknown", "Unmeasured")},
        ),
        (
            job("j", sla=0.9),
            {"Admitted": ("True", "Profiling"), "Placed": ("False", "Waiting"), "SLAMet": ("Unknown", "NotPlaced")},
        ),
        (job("j", suspended=True), {"Admitted": ("False", "Suspended"), "Placed": ("False", "Suspended")}),
        (
            placed(job("j"), "gone", renewed=NOW - 60),
            {"Admitted": ("True", "Profiling"), "Placed": ("False", "NodeLost")},
        ),
        (
            not_started(placed(job("j"), "n")),
            {"Admitted": ("True", "Profiling"), "Placed": ("False", "NotStarted")},
        ),
        (replace(placed(job("j"), "n"), finished=True), {"Placed": ("False", "Finished")}),
    ],
)
def test_conditions(view: JobView, expected: dict[str, tuple[str, str]]) -> None:
    assert said(status_of(outcome(run(node("n"), view), "j"))) == expected


def measured(fraction: float | None) -> tuple[JobView, History]:
    view = placed(job("j", sla=0.5), "n")
    track = Track(
        "id-j", "j-1", "class", ("cpu",), NOW - 600, NOW, 0, 0.0, fraction=fraction,
        tokens_per_second=None if fraction is None else 123.456 * fraction,
    )  # fmt: skip
    return view, History(profiles={("class", "cpu"): Profile(123.456, 60, NOW)}, tracks={"uid-j": track})


@pytest.mark.parametrize(
    ("fraction", "expected", "message"),
    [
        (None, ("Unknown", "Measuring"), "less than 60 s measured so far"),
        (0.61, ("True", "Met"), "measured 0.61 ≥ SLA 0.50 over 60 s"),
        (0.5, ("True", "Met"), "measured 0.50 ≥ SLA 0.50 over 60 s"),
        (0.41, ("Unknown", "Measuring"), "measured 0.41 < SLA 0.50 over 60 s"),
    ],
)
def test_sla_met_carries_the_numbers(fraction: float | None, expected: tuple[str, str], message: str) -> None:
    view, history = measured(fraction)
    written = status_of(outcome(run(node("n"), view, history=history), "j"), history)
    assert said(written)["SLAMet"] == expected
    assert written.conditions[2].message == message


def test_a_missed_sla_counts_as_met_again_when_all_of_it_is_made_up_for() -> None:
    view, history = measured(0.55)
    track, met = history.tracks["uid-j"], []
    for missing in (0.0, 119.9, 120.0, 119.9, 0.1, 0.0, 0.1):
        now = replace(history, tracks={"uid-j": replace(track, shortfall=missing)})
        view = stored(view, status_of(outcome(run(node("n"), view, history=now), "j"), now))
        met.append(said(owned(view.status))["SLAMet"])
    assert met == [*[("True", "Met")] * 2, *[("False", "BelowSLA")] * 3, *[("True", "Met")] * 2]


def test_a_scheduler_that_has_just_been_started_makes_up_for_no_missed_sla() -> None:
    """It knows nothing of what is missing; what is measured says that nothing has become better."""
    view, history = measured(0.2)
    track, met = history.tracks["uid-j"], []
    for missing, fraction in ((150.0, 0.2), (0.0, 0.2), (5.0, 0.2), (0.0, 0.5)):
        now = replace(history, tracks={"uid-j": replace(track, shortfall=missing, fraction=fraction)})
        view = stored(view, status_of(outcome(run(node("n"), view, history=now), "j"), now))
        met.append(said(owned(view.status))["SLAMet"])
    assert met == [*[("False", "BelowSLA")] * 3, ("True", "Met")]


def test_a_job_that_begins_below_its_sla_is_measured_until_it_is_known() -> None:
    view, history = measured(0.2)
    track, met = history.tracks["uid-j"], []
    for missing, fraction in ((30.0, 0.2), (90.0, 0.2), (40.0, 0.6), (0.0, 0.6), (30.0, 0.2)):
        now = replace(history, tracks={"uid-j": replace(track, shortfall=missing, fraction=fraction)})
        view = stored(view, status_of(outcome(run(node("n"), view, history=now), "j"), now))
        met.append(said(owned(view.status))["SLAMet"][0])
    assert met == ["Unknown", "Unknown", "Unknown", "True", "True"]


def test_what_is_missing_is_told_as_far_as_it_is_remembered() -> None:
    view, history = measured(0.2)
    track = history.tracks["uid-j"]
    for missing, told, limit in (
        (30.0, "30 s", ", 120 s are a miss"), (239.0, "239 s", ""), (240.0, "at least 240 s", ""),
    ):  # fmt: skip
        now = replace(history, tracks={"uid-j": replace(track, shortfall=missing)})
        written = status_of(outcome(run(node("n"), view, history=now), "j"), now)
        assert (
            written.conditions[-1].message
            == f"measured 0.20 < SLA 0.50 over 60 s; {told} of its throughput are missing{limit}"
        )


def test_sla_met_tells_of_an_eviction_until_the_next_placement() -> None:
    view, history = measured(0.2)
    track = replace(history.tracks["uid-j"], shortfall=150.0)
    lost = status_of(outcome(run(node("n"), node("z"), view, history=History(tracks={"uid-j": track})), "j"))
    assert said(lost)["SLAMet"] == ("False", "SLAViolated")
    assert lost.conditions[2].message == lost.conditions[1].message
    waiting = status_of(outcome(run(stored(replace(view, placement=None), lost)), "j"))
    assert said(waiting)["SLAMet"] == ("False", "SLAViolated")
    again = status_of(outcome(run(node("n"), stored(replace(view, placement=None), waiting)), "j"))
    assert said(again)["SLAMet"] == ("Unknown", "Profiling")


def test_sla_met_of_a_job_that_lost_its_node_is_unknown() -> None:
    view, history = measured(0.61)
    view = stored(view, status_of(outcome(run(node("n"), view, history=history), "j"), history))
    assert view.placement is not None
    silent = replace(view, placement=replace(view.placement, renewed=NOW - 60))
    lost = status_of(outcome(run(silent), "j"))
    assert said(lost)["SLAMet"] == ("Unknown", "NotPlaced")


def test_a_finished_job_keeps_what_was_measured_last() -> None:
    view, history = measured(0.61)
    running = status_of(outcome(run(node("n"), view, history=history), "j"), history)
    ended = status_of(outcome(run(node("n"), replace(stored(view, running), finished=True)), "j"))
    assert said(ended)["SLAMet"] == ("True", "Met")
    assert ended.throughput == running.throughput
    never = status_of(outcome(run(node("n"), replace(view, finished=True)), "j"))
    assert said(never)["SLAMet"] == ("Unknown", "NotPlaced")


def test_what_was_measured_on_an_older_assignment_is_not_told() -> None:
    view, history = measured(0.61)
    older = replace(history, tracks={"uid-j": replace(history.tracks["uid-j"], assignment="older")})
    written = status_of(outcome(run(node("n"), view, history=older), "j"), older)
    assert said(written)["SLAMet"] == ("Unknown", "Measuring")
    assert written.throughput is None
    waiting = replace(view, placement=None)
    assert status_of(outcome(run(waiting, history=history), "j"), history).throughput is None


def test_without_a_profile_nothing_is_predicted_in_tokens_nor_a_part_of_them_measured() -> None:
    view, history = measured(0.61)
    bare = replace(history, profiles={})
    written = status_of(outcome(run(node("n"), view, history=bare), "j"), bare)
    assert written.throughput is not None
    assert written.throughput.to_wire() == {"measuredTokensPerSecond": 75.3}


@pytest.mark.parametrize("counts_tokens", [True, False])
def test_admitted_tells_when_the_throughput_alone_is_known(counts_tokens: bool) -> None:
    view = job("j", counts_tokens=counts_tokens)
    known = History(profiles={("class", "cpu"): Profile(100.0, 60, NOW)})
    written = status_of(outcome(run(node("n"), view), "j"), known)
    assert said(written)["Admitted"] == ("True", "Admitted")
    assert written.conditions[0].message.endswith("the throughput of its workload class alone is known")
    unknown = status_of(outcome(run(node("n"), view), "j"))
    assert said(unknown)["Admitted"] == ("True", "Profiling" if counts_tokens else "Admitted")


def test_a_job_that_is_resumed_waits_like_any_other() -> None:
    held = status_of(outcome(run(job("j", suspended=True)), "j"))
    assert said(held)["Placed"] == ("False", "Suspended")
    resumed = status_of(outcome(run(stored(job("j"), held)), "j"))
    assert said(resumed)["Placed"] == ("False", "Waiting")


def test_the_assignment_says_beside_how_many_its_promise_was_made() -> None:
    told = status_of(outcome(run(node("n"), placed(job("a"), "n"), job("j")), "j")).assignment
    assert told is not None
    assert (told.predicted_fraction, told.tenants) == (0.4, 2)


def test_the_explanation_of_a_placement_stays_while_the_job_does() -> None:
    first = outcome(run(node("n"), job("j")), "j")
    view = replace(stored(job("j"), status_of(first)), placement=first.placement)
    kept = status_of(outcome(run(node("n", device("n", idle=0.1)), view), "j"))
    assert kept.explanation == view.status.explanation
    assert kept.explanation is not None


def test_throughput_is_told_in_round_numbers() -> None:
    view, history = measured(0.61)
    written = status_of(outcome(run(node("n"), view, history=history), "j"), history)
    assert written.throughput is not None
    assert written.throughput.to_wire() == {
        "soloTokensPerSecond": 123.0,
        "predictedTokensPerSecond": 98.8,
        "measuredTokensPerSecond": 75.3,
        "measuredFraction": 0.61,
    }


def test_an_eviction_reason_stays_until_the_next_placement() -> None:
    view = placed(job("j"), "gone", renewed=NOW - 60)
    lost = status_of(outcome(run(view), "j"))
    assert lost.evictions == 1
    assert lost.assignment is None
    waiting = status_of(outcome(run(stored(replace(view, placement=None), lost)), "j"))
    assert said(waiting)["Placed"] == ("False", "NodeLost")
    again = status_of(outcome(run(node("n"), stored(replace(view, placement=None), waiting)), "j"))
    assert said(again)["Placed"] == ("True", "Placed")
    assert again.evictions == 1


def test_why_a_pod_did_not_start_stays_until_the_next_placement_and_is_written_once() -> None:
    view = not_started(placed(job("j"), "n"))
    failure = view.status.start_failure
    lost = status_of(outcome(run(node("n"), view), "j"))
    assert (lost.evictions, lost.assignment) == (1, None)
    told = stored(replace(view, placement=None), lost)
    view = replace(told, status=told.status.model_copy(update={"start_failure": failure}))
    history = History(backoffs={("uid-j", "n"): Backoff(1, NOW + 30, "NotStarted")})
    waiting = status_of(outcome(run(node("n"), view, history=history), "j"))
    assert waiting.evictions == 1
    assert said(waiting)["Placed"] == ("False", "NotStarted")
    assert waiting.conditions[1].message == "n: ImagePullBackOff: no such image"
    assert waiting.explanation is not None
    assert "after NotStarted (attempt 1 on this node)" in waiting.explanation.message
    again = outcome(run(node("n"), view), "j")
    assert said(status_of(again))["Placed"] == ("True", "Placed")
    kept = outcome(run(node("n"), replace(view, placement=again.placement)), "j")
    assert kept.placement == again.placement


def test_a_suspended_job_is_no_eviction() -> None:
    written = status_of(outcome(run(node("n"), replace(placed(job("j"), "n"), suspended=True)), "j"))
    assert written.evictions is None
    assert written.assignment is None


def test_an_unchanged_world_is_not_written() -> None:
    world = [node("n", device("n", idle=0.12)), node("o", reported=NOW - 40)]
    view = job("j", sla=0.2)
    first = status_of(outcome(run(*world, view), "j"))
    view = stored(view, first)
    again = status_of(outcome(run(*world, view), "j"), now=NOW + 100)
    assert not worth_writing(again, owned(view.status), float("inf"))


@pytest.mark.parametrize(("idle", "quiet", "write"), [(0.14, 99, False), (0.19, 99, True), (0.19, 5, False)])
def test_small_and_frequent_changes_of_numbers_are_not_written(idle: float, quiet: float, write: bool) -> None:
    view = job("j", sla=0.2)
    view = stored(view, status_of(outcome(run(node("n", device("n", idle=0.12)), view), "j")))
    new = status_of(outcome(run(node("n", device("n", idle=idle)), view), "j"))
    assert worth_writing(new, owned(view.status), quiet) == write


@pytest.mark.parametrize("later", [5.0, 3600.0])
def test_a_renewal_is_no_reason_to_write_and_changes_nothing_that_is_written(later: float) -> None:
    view = job("j")
    first = outcome(run(node("n"), view), "j")
    view = replace(stored(view, status_of(first)), placement=first.placement)
    view = stored(view, status_of(outcome(run(node("n"), view), "j")))
    found = outcome(run(node("n", reported=NOW + later), view, now=NOW + later), "j")
    assert found.placement is not None
    assert found.placement.renewed == NOW + later
    new = status_of(found, now=NOW + later)
    assert new.assignment == view.status.assignment
    assert not worth_writing(new, owned(view.status), float("inf"))


def test_a_new_assignment_says_when_its_node_had_been_heard() -> None:
    view = job("j")
    first = outcome(run(node("n", reported=NOW - 4), view), "j")
    assert first.placement is not None
    old = replace(first.placement, id="older", renewed=NOW - 99)
    for before in (view, stored(view, status_of(replace(first, placement=old)))):
        new = status_of(replace(first, job=before))
        assert new.assignment is not None
        assert new.assignment.lease.renew_time == rfc3339(NOW - 4, "microseconds")
        assert new.assignment.lease.duration_seconds == POLICY.lease_seconds


def test_a_transition_time_moves_only_with_the_status() -> None:
    view = job("j", sla=0.9)
    first = status_of(outcome(run(node("n"), view), "j"))
    backoffs = {("uid-j", "n"): Backoff(1, NOW + 99, "SLAViolated")}
    history = History(backoffs=backoffs)
    second = status_of(outcome(run(node("n"), stored(view, first), history=history), "j"), now=NOW + 50)
    assert second.conditions[1].message != first.conditions[1].message
    assert second.conditions[1].last_transition_time == first.conditions[1].last_transition_time


def test_the_manifest_names_the_object_by_uid_and_version() -> None:
    written = manifest(replace(job("j"), version="7"), status_of(outcome(run(job("j")), "j")))
    assert written["metadata"] == {"name": "j", "namespace": "ns", "uid": "uid-j", "resourceVersion": "7"}
    assert written["status"]["explanation"]["message"] == "no node reports a harvested device"


def test_a_message_that_is_too_long_is_cut_and_ends_no_pass() -> None:
    found = outcome(run(node("n"), job("j")), "j")
    written = status_of(replace(found, message="x" * 40_000))
    assert {len(condition.message) for condition in written.conditions if condition.type == "Placed"} == {4096}


def test_a_finished_job_keeps_what_was_told_of_it() -> None:
    view = job("j")
    first = outcome(run(node("n"), view), "j")
    view = replace(stored(view, status_of(first)), placement=first.placement, finished=True)
    written = status_of(outcome(run(node("n"), view), "j"))
    assert written.assignment is None
    assert written.explanation == view.status.explanation
    assert said(written) == {"Admitted": ("True", "Profiling"), "Placed": ("False", "Finished")}

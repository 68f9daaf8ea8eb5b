"""Which explanation is kept, and which is told anew."""

from dataclasses import replace

import pytest
from scheduler.builders import GIB, NOW, POLICY, device, job, node, outcome, placed, pod, run

from rowen.crds.job.offline_job_status import CandidateExplanation, Explanation, OfflineJobStatus
from rowen.scheduler.history import History
from rowen.scheduler.model.prediction import Prediction
from rowen.scheduler.placement.search.request import Candidate
from rowen.scheduler.serve.explanation import explain, settled
from rowen.scheduler.snapshot import JobView, NodeView, PodView
from rowen.scheduler.world.status import Wanted, owned, wanted, worth_writing

FOR_EVER = float("inf")
IDLE = "idle 0.12 < SLA 0.20 + margin 0.02"
CROWDED = "no device has room for it, whichever jobs end: spec.memory is 5.00Gi, the most is {} on {}"


def explanation(message: str, **reasons: str) -> Explanation:
    """With a candidate for each node that a reason is given for."""
    factors = {"idle": 0.5, "memory": 0.0, "alignment": 1.0, "sharing": 1.0, "predicted_fraction": 0.0}
    told = [
        CandidateExplanation(node=name, devices=["cpu0"], chosen=False, reason=reason, **factors)
        for name, reason in reasons.items()
    ]
    return Explanation(message=message, candidates=told)


def kept(before: Explanation, new: Explanation) -> bool:
    """Whether what was told of the one stays when it is the other."""
    old = settled(None, before)
    found = settled(old, new)
    assert found in (old, settled(None, new))
    return found is old


def test_the_status_names_the_best_candidate_and_no_other() -> None:
    told = settled(None, explanation(f"no candidate holds: a/cpu0: {IDLE}", a=IDLE, b=IDLE))
    assert (told.message, [entry.node for entry in told.candidates]) == (f"no candidate holds: a/cpu0: {IDLE}", ["a"])


@pytest.mark.parametrize(
    ("now", "stays"),
    [
        ({"b": IDLE, "a": IDLE}, True),
        ({"b": IDLE}, True),
        ({"b": IDLE, "a": "node is cordoned"}, False),
        ({"b": "alignment 0.41 < 0.60", "a": IDLE}, False),
        ({}, False),
    ],
)
def test_another_best_is_news_where_it_differs_or_the_old_one_has_changed(now: dict[str, str], stays: bool) -> None:
    before = explanation(f"no candidate holds: a/cpu0: {IDLE}", a=IDLE, b=IDLE)
    first = next(iter(now), "")
    assert kept(before, explanation(f"no candidate holds: {first}/cpu0: {now.get(first)}", **now)) == stays


def test_what_an_earlier_release_told_of_many_candidates_is_told_anew() -> None:
    old = explanation(f"no candidate holds: a/cpu0: {IDLE}", a=IDLE, b=IDLE)
    assert len(settled(old, explanation(f"no candidate holds: a/cpu0: {IDLE}", a=IDLE, b=IDLE)).candidates) == 1
    assert settled(old, old) is old


def test_a_placement_elsewhere_is_news() -> None:
    places = [Candidate(name, ("cpu0",), Prediction(0.5, 1.0, 1.0, 1.0), "", gain=0.5) for name in "ab"]
    first, second = (explain("placed", [place], chosen=True) for place in places)
    assert settled(first, second) == second


@pytest.mark.parametrize(
    ("before", "after", "stays"),
    [
        ("4.00Gi of 8.00Gi", "4.19Gi of 8.00Gi", True),
        ("4.00Gi of 8.00Gi", "3.81Gi of 8.00Gi", True),
        ("4.00Gi of 8.00Gi", "4.21Gi of 8.00Gi", False),
        ("4.00Gi of 8.00Gi", "3.79Gi of 8.00Gi", False),
        ("4.00Gi of 8.00Gi", "4.00Gi of 8.41Gi", False),
        ("0.00Gi of 8.00Gi", "0.01Gi of 8.00Gi", False),
        ("0.00Gi of 8.00Gi", "0.00Gi of 8.01Gi", True),
        ("report is 20 s old", "report is 90 s old", True),
    ],
)
def test_amounts_of_memory_move_by_more_than_a_twentieth_or_not_at_all(before: str, after: str, stays: bool) -> None:
    assert kept(explanation("none", n=before), explanation("none", n=after)) == stays


@pytest.mark.parametrize(
    ("before", "after", "stays"),
    [
        (CROWDED.format("4.00Gi", "n1/cpu0"), f"no candidate holds: a/cpu0: {IDLE}", False),
        (f"no candidate holds: a/cpu0: {IDLE}", CROWDED.format("4.00Gi", "n1/cpu0"), False),
        (CROWDED.format("4.00Gi", "n1/cpu0"), CROWDED.format("4.10Gi", "n1/cpu0"), True),
        (CROWDED.format("4.00Gi", "n1/cpu0"), CROWDED.format("4.30Gi", "n1/cpu0"), False),
        (CROWDED.format("4.00Gi", "n1/cpu0"), CROWDED.format("4.00Gi", "n2/cpu0"), False),
        # Which of two candidates comes first is no news, what follows is.
        (f"no candidate holds: a/cpu0: {IDLE}", f"no candidate holds: b/cpu0: {IDLE}", True),
        (f"no candidate holds: a/cpu0: {IDLE}", f"no candidate holds: b/cpu0: {IDLE}; spec.memoryLimit", False),
        ("n/cpu0: measured 0.10 < SLA 0.30", "no node reports a harvested device", False),
    ],
)
def test_a_message_that_says_something_else_is_told_though_the_candidates_are_the_same(
    before: str, after: str, stays: bool
) -> None:
    candidates = {"a": IDLE, "b": IDLE}
    assert kept(explanation(before, **candidates), explanation(after, **candidates)) == stays


@pytest.mark.parametrize(("rate", "told_"), [(1.0, ""), (1 / 3, ", x rate 0.33")])
def test_a_place_is_told_with_the_rate_that_its_gain_has_in_it(rate: float, told_: str) -> None:
    place = Candidate("n", ("cpu0",), Prediction(0.5, 1.0, 1.0, 1.0), "", gain=0.5 * rate, rate=rate)
    entry, other = explain("", [place, place], chosen=True).candidates
    assert (entry.chosen, other.chosen) == (True, False)
    assert other.reason.startswith("fits: ")
    assert (
        entry.reason == f"chosen: predicted 0.50 = idle 0.50 x sharing 1.00{told_}, harvests {0.5 * rate:+.2f} devices"
    )


def told(view: JobView, *world: NodeView | PodView) -> Wanted:
    return wanted(outcome(run(*world, view), "j"), (), History(), NOW, POLICY)


def stored(view: JobView, written: Wanted) -> JobView:
    return replace(view, status=OfflineJobStatus.from_wire(written.to_wire()))


def beside(held: float) -> tuple[NodeView, PodView]:
    """A device of 8 GiB, 2 of them the service's, on which a pod has so many GiB."""
    return node("n", slots=4), pod(job("x", memory=int(held * GIB)), "n")


def words(status: Wanted) -> list[str]:
    """Everything that tells of the memory."""
    assert status.explanation is not None
    found = next(condition for condition in status.conditions if condition.type == "Placed")
    return [status.explanation.message, status.explanation.candidates[0].reason, found.message]


def test_memory_that_jobs_give_back_is_told_everywhere_once() -> None:
    view = job("j", memory=11 * GIB // 2)
    view = stored(view, told(view, *beside(5)))
    assert all("1.00Gi of 8.00Gi left" in text and text.endswith("have 5.00Gi") for text in words(owned(view.status)))
    new = told(view, *beside(1))
    assert all("5.00Gi of 8.00Gi left" in text and text.endswith("have 1.00Gi") for text in words(new))
    assert [worth_writing(new, owned(view.status), quiet) for quiet in (9.9, 10.0)] == [False, True]
    view = stored(view, new)
    assert not worth_writing(told(view, *beside(1)), owned(view.status), FOR_EVER)


@pytest.mark.parametrize(("held", "write"), [(3.1, False), (2.9, False), (3.2, True), (2.8, True)])
def test_memory_that_has_hardly_moved_is_not_written(held: float, write: bool) -> None:
    """3 GiB are left to jobs that have 3 GiB: a twentieth is 0.15 GiB."""
    view = job("j", memory=5 * GIB)
    view = stored(view, told(view, *beside(3)))
    new = told(view, *beside(held))
    assert worth_writing(new, owned(view.status), FOR_EVER) == write
    assert (new == owned(view.status)) == (not write)


def test_that_nothing_has_room_is_taken_back_when_a_closed_device_gets_room() -> None:
    """The cordoned device tells no memory as a candidate."""
    tight = node("a", device("a", online_memory=6 * GIB))
    before, after = (node("z", device("z", online_memory=held * GIB), schedulable=False) for held in (8, 1))
    view = job("j", memory=5 * GIB)
    view = stored(view, told(view, tight, before))
    assert words(owned(view.status))[0].startswith("no device has room for it")
    new = told(view, tight, after)
    message, _, condition = words(new)
    assert message == condition
    assert message.startswith("no candidate holds: a/cpu0: memory 0: needs 5.00Gi, 2.00Gi of 8.00Gi left")


def test_candidates_that_change_places_are_not_written() -> None:
    def world(a: float, b: float) -> list[NodeView]:
        return [node(name, device(name, idle=idle)) for name, idle in (("a", a), ("b", b))]

    view = job("j", sla=0.9)
    view = stored(view, told(view, *world(0.5, 0.51)))
    assert words(owned(view.status))[2].startswith("no candidate holds: b/cpu0: idle 0.51")
    assert told(view, *world(0.51, 0.5)) == owned(view.status)
    assert words(told(view, *world(0.6, 0.5)))[2].startswith("no candidate holds: a/cpu0: idle 0.60")


@pytest.mark.parametrize(("most", "figure"), [(8.3, "8.00Gi"), (8.5, "8.50Gi")])
def test_what_a_placed_job_may_have_is_told_anew_when_it_moves(most: float, figure: str) -> None:
    """Of 8 GiB; no explanation is written while a job stays."""
    before, after = (placed(job("j", pool=int((limit - 1) * GIB)), "n") for limit in (8, most))
    large = node("n", device("n", memory=16 * GIB))
    new = told(replace(after, status=stored(before, told(before, large)).status), large)
    found = next(condition for condition in new.conditions if condition.type == "Placed")
    assert found.message.endswith(f"1.00Gi of memory of its own, up to {figure} with the device's pool")

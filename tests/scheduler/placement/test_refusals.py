"""Why a job waits: where its margin comes from, what can never be, and what stands against a set of devices."""

import pytest
from scheduler.builders import GIB, NOW, device, job, node, outcome, placed, run

from rowen.scheduler.decision import Action
from rowen.scheduler.history import History
from rowen.scheduler.model.memory import linear_need
from rowen.scheduler.model.profile import HIGHEST_SLA, PredictionError
from rowen.scheduler.serve.explanation import alike
from rowen.scheduler.snapshot import DeviceView, JobView


def told(view: JobView, on: DeviceView, error: PredictionError | None = None) -> str:
    history = History(errors={"class": error} if error else {})
    found = outcome(run(node("n", on), view, history=history), "j")
    assert found.action is Action.WAIT
    return found.message.removeprefix("no candidate holds: n/cpu0: ")


def test_a_margin_of_a_class_that_was_never_measured_says_so() -> None:
    expected = (
        "idle 0.50 < SLA 0.49 + margin 0.05 (nothing of its class is measured of late); up to 0.45 can be promised here"
    )
    assert told(job("j", sla=0.49), device("n", idle=0.5)) == expected


def test_a_margin_of_a_class_that_was_off_says_by_how_much() -> None:
    """0.04 in the mean and two deviations of 0.08: a fifth, so that a quarter more than the SLA is needed."""
    error = PredictionError(0.04, 0.0064, NOW)
    expected = "idle 0.50 < SLA 0.48 + margin 0.12 (its class is off by up to 20%); up to 0.40 can be promised here"
    assert told(job("j", sla=0.48), device("n", idle=0.5), error) == expected


def test_a_margin_of_a_noisy_device_says_how_noisy() -> None:
    """A deviation of 0.05 at 0.5 is a tenth: two of them leave four fifths."""
    expected = "idle 0.50 < SLA 0.48 + margin 0.12 (its idle time moves by 10%); up to 0.40 can be promised here"
    assert told(job("j", sla=0.48), device("n", idle=0.5, deviation=0.05)) == expected


def test_a_margin_for_memory_says_so() -> None:
    """The pool lends half of what it wants; of that half of the loss is not known: a half of M."""
    wants = job("j", sla=0.38, pool=4 * GIB, need=linear_need(4 * GIB, doubt=0.5))
    found = told(wants, device("n", idle=0.8, available=(3 * GIB,)))
    assert (
        "memory 0.50 x idle 0.80 = 0.40 < SLA 0.38 + margin 0.38 (what memory is worth to it is known to 50%)" in found
    )


def test_where_the_factors_alone_decide_the_margin_is_not_explained() -> None:
    expected = "idle 0.50 < SLA 0.60 + margin 0.07; up to 0.45 can be promised here"
    assert told(job("j", sla=0.6), device("n", idle=0.5)) == expected


@pytest.mark.parametrize("idle", [0.5, 0.37, 0.02])
def test_what_can_be_promised_is_promised_and_a_hundredth_more_is_not(idle: float) -> None:
    on = device("n", idle=idle, deviation=0.1 * idle)
    most = float(told(job("j", sla=0.6), on).partition("up to ")[2].split()[0])
    for sla, action in ((most, Action.PLACE), (most + 0.01, Action.WAIT)):
        assert outcome(run(node("n", on), job("j", sla=sla)), "j").action is action


def test_of_next_to_nothing_no_part_is_promised() -> None:
    expected = "idle 0.00 < SLA 0.60 + margin 0.07; a less busy service would change it"
    assert told(job("j", sla=0.6), device("n", idle=0.003)) == expected


@pytest.mark.parametrize(("theirs", "help_"), [(0.35, ""), (0.15, "; up to 0.20 can be promised here")])
def test_no_part_is_promised_that_neighbours_would_pay_for(theirs: float, help_: str) -> None:
    """0.225 each beside one with an SLA: of 0.35, which a newcomer would break, or of 0.15."""
    neighbour = placed(job("a", sla=theirs), "n")
    on = node("n", device("n", idle=0.45), slots=2)
    found = outcome(run(on, neighbour, job("j", sla=0.6)), "j").message
    assert found == f"no candidate holds: n/cpu0: idle 0.45 x sharing 0.50 = 0.23 < SLA 0.60 + margin 0.07{help_}"
    assert outcome(run(on, neighbour, job("j", sla=0.2)), "j").action is (Action.PLACE if help_ else Action.WAIT)


def test_of_factors_that_are_alike_idle_time_is_what_can_be_promised() -> None:
    on, neighbour = node("n", device("n", idle=0.5), slots=2), placed(job("a"), "n")
    assert outcome(run(on, neighbour, job("j", sla=0.6)), "j").message.endswith("; up to 0.22 can be promised here")


def test_alone_there_memory_counts_too() -> None:
    """Of 16 GiB four jobs have 1 each of their own: 3 of the 4 that it wants are its part."""
    on = node("n", device("n", idle=0.8, available=(16 * GIB,)), slots=4)
    others = [placed(job(name), "n") for name in "abc"]
    wants = job("j", sla=0.6, pool=4 * GIB, need=linear_need(4 * GIB))
    assert outcome(run(on, *others, wants), "j").message.endswith("; alone there it would get at least 0.60")


def test_a_job_without_an_sla_has_to_wait_for_the_service() -> None:
    expected = "idle 0.001: nothing to harvest; a less busy service would change it"
    assert told(job("j"), device("n", idle=0.001)) == expected


def test_figures_that_move_do_not_make_another_text() -> None:
    """A status is rewritten for another one: at the level of the SLA, at none, beside one tenant or three."""
    for sla, idles in ((0.6, (0.5, 0.1)), (0.6, (0.004, 0.0)), (None, (0.004, 0.0))):
        first, *others = (told(job("j", sla=sla), device("n", idle=idle)) for idle in idles)
        assert all(alike(first, other) for other in others)
    some = [[placed(job(name, sla=None), "n") for name in names] for names in ("a", "abc")]
    beside = [outcome(run(node("n", device("n", idle=0.9), slots=4), *those, job("j", sla=0.6)), "j") for those in some]
    assert "sharing 0.50 x idle 0.90 = 0.45 < SLA 0.60" in beside[0].message
    assert beside[0].message.endswith("; alone there it would get at least 0.90")
    assert alike(beside[0].message, beside[1].message)


def test_a_large_margin_is_explained_where_the_factors_decide_too() -> None:
    """The class is off by a half at most that counts: as much again as the SLA."""
    error = PredictionError(0.3, 0.04, NOW)
    expected = "idle 0.30 < SLA 0.45 + margin 0.45 (its class is off by up to 50%); up to 0.15 can be promised here"
    assert told(job("j", sla=0.45), device("n", idle=0.3), error) == expected


@pytest.mark.parametrize(("sla", "figure"), [(0.985, "0.985"), (0.99, "0.99"), (1.0, "1")])
def test_an_sla_that_no_margin_allows_is_told_as_never_possible(sla: float, figure: str) -> None:
    history = History(errors={"class": PredictionError(-0.5, 0.0, NOW)})
    found = outcome(run(node("n", device("n", idle=1.0)), job("j", sla=sla), history=history), "j")
    assert found.message == (
        f"it can never be promised: spec.sla.throughputFraction is {figure}, 0.98 is the most that can be promised, "
        "since a promise keeps a margin"
    )


def test_the_highest_sla_is_promised_on_a_device_that_is_always_idle() -> None:
    history = History(errors={"class": PredictionError(-0.5, 0.0, NOW)})
    found = outcome(run(node("n", device("n", idle=1.0)), job("j", sla=HIGHEST_SLA), history=history), "j")
    assert found.action is Action.PLACE


def test_the_highest_sla_may_find_a_place_later() -> None:
    found = outcome(run(node("n", device("n", idle=0.9)), job("j", sla=HIGHEST_SLA)), "j")
    assert found.message.startswith("no candidate holds")


FOUR = tuple(device("n", f"g{number}") for number in range(4))


def places(*parts: object, devices: int = 4) -> list[tuple[str, str]]:
    found = outcome(run(*parts, job("j", devices=devices)), "j")  # type: ignore[arg-type]
    assert found.action is Action.WAIT
    return [(candidate.place, candidate.refusal) for candidate in found.candidates]


def test_a_set_on_a_silent_node_is_told_as_a_set() -> None:
    """Its neighbour with one device is no place for it and is not told."""
    assert places(node("n", *FOUR, reported=NOW - 40), node("a", device("a"))) == [
        ("n/g0+g1+g2+g3", "its agent has been silent for 40 s > 30 s")
    ]


def test_a_node_on_which_some_devices_are_closed_says_which_is_in_the_way() -> None:
    gone = "OnlineService ns/s is gone"
    shut = (*FOUR[:2], device("n", "g2", refusal=gone), device("n", "g3", attached=False))
    assert places(node("n", *shut)) == [
        ("n/g0+g1+g2+g3", f"2 of its 4 devices can be used, the job needs 4: g2: {gone}")
    ]
    assert places(node("n", *shut), devices=3) == [
        ("n/g0+g1+g2", f"2 of its 4 devices can be used, the job needs 3: g2: {gone}")
    ]


def test_nodes_that_lack_a_device_are_told_before_those_that_are_out() -> None:
    silent = node("a", *(device("a", f"g{number}") for number in range(4)), reported=None)
    some = node("n", *FOUR[:3], device("n", "g3", attached=False))
    assert [place for place, _ in places(silent, some)] == ["n/g0+g1+g2+g3", "a/g0+g1+g2+g3"]

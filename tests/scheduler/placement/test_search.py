"""Which places a search looks at, in which order, and where it ends."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from scheduler.builders import GIB, LEASE, NOW, device, job, node, outcome, placed, pod, run, world

from rowen.crds.names import LATE_SECONDS
from rowen.scheduler.decision import Action
from rowen.scheduler.history import History
from rowen.scheduler.model.memory import linear_need
from rowen.scheduler.model.profile import PredictionError, Profile
from rowen.scheduler.monitor.backoff import EVERY_NODE, Backoff
from rowen.scheduler.placement.constraints import constraints_of
from rowen.scheduler.placement.fleet.columns import Columns
from rowen.scheduler.placement.search import choice, evaluation, sets
from rowen.scheduler.placement.search.request import Candidate
from rowen.scheduler.serve.metrics import Metrics
from rowen.scheduler.snapshot import JobView, NodeView

Part = NodeView | JobView
EXACT = History(errors={"class": PredictionError(0.0, 0.0)})
IN_A = constraints_of({"spec": {"nodeSelector": {"zone": "a"}}})


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The places of which candidates were made."""
    places: list[str] = []

    def counted(real: Callable[..., Candidate]) -> Callable[..., Candidate]:
        def count(*arguments: Any) -> Candidate:
            candidate = real(*arguments)
            places.append(candidate.place)
            return candidate

        return count

    for module in (choice, sets):
        monkeypatch.setattr(module, "evaluate", counted(evaluation.evaluate))
    monkeypatch.setattr(choice, "fit", counted(evaluation.fit))
    return places


def many(count: int, *, name: str = "n", devices: int = 1, jobs: int = 0, **fields: Any) -> list[Part]:
    """Equal nodes, with so many jobs on all devices of each."""
    parts: list[Part] = []
    slots = fields.pop("slots", 2)
    labels = fields.pop("labels", {})
    for number in range(count):
        at = f"{name}{number:03}"
        ids = [f"g{i}" for i in range(devices)]
        parts.append(node(at, *(device(at, id_, **fields) for id_ in ids), slots=slots * devices, labels=labels))
        parts += [placed(job(f"{at}-{i}", devices=devices), at, *ids) for i in range(jobs)]
    return parts


def chosen(parts: Iterable[Part], asked: JobView, history: History | None = None) -> str:
    found = outcome(run(*parts, asked, history=history), asked.name)
    assert found.placement is not None, found.message
    return found.placement.node


EVERYWHERE = History(backoffs={("uid-j", EVERY_NODE): Backoff(1, NOW + 60, "NotStarted")})
AWAY = History(backoffs={("uid-j", "n000"): Backoff(1, NOW + 60, "NodeLost")})
ONE_SMALL = node("n", *(device("n", f"g{i}", memory=size * GIB) for i, size in enumerate((3, 8, 8))))


@pytest.mark.parametrize(
    ("parts", "asked", "history", "count"),
    [
        (many(40), job("j"), None, 2),
        (many(40, jobs=1), job("j"), None, 2),
        (many(40, jobs=2), job("j"), None, 16),
        ([*many(1, jobs=1, idle=0.9), *many(40, name="o", devices=2, jobs=1)], job("j", priority=1), None, 2),
        (many(40, idle=0.3), job("j", sla=0.4), None, 16),
        (many(40, idle=0.4, deviation=0.1), job("j", sla=0.35), EXACT, 16),
        (many(40, jobs=1, available=(4 * GIB,)), job("j", sla=0.38, need=linear_need(GIB), memory=0), EXACT, 16),
        (many(40, idle=0.004), job("j"), None, 16),
        (many(40, memory=3 * GIB), job("j", memory=2 * GIB), None, 16),
        (many(40, devices=2, jobs=1), job("j"), None, 16),
        (many(40), job("j", constraints=IN_A), None, 16),
        (many(40), job("j"), EVERYWHERE, 16),
        (many(40, devices=2), job("j", devices=2), None, 1),
        (many(40, devices=3), job("j", devices=2), None, 1),
        (many(40, devices=5), job("j", devices=2), None, 1),
        (many(40, devices=2, idle=0.3), job("j", devices=2, sla=0.4), None, 16),
        (many(40, devices=2, memory=3 * GIB), job("j", devices=2, memory=2 * GIB), None, 16),
        (many(40, devices=2, jobs=2), job("j", devices=2), None, 16),
        (many(40, devices=2), job("j", devices=2, constraints=IN_A), None, 16),
        (many(40, devices=2), job("j", devices=2), EVERYWHERE, 16),
        (many(40, devices=2), job("j", devices=2), AWAY, 1),
        ([ONE_SMALL], job("j", devices=2, memory=2 * GIB), None, 1),
    ],
)
def test_a_search_evaluates_no_more_than_it_tells(
    evaluated: list[str], parts: list[Part], asked: JobView, history: History | None, count: int
) -> None:
    found = outcome(run(*parts, asked, history=history), "j")
    assert len(evaluated) == count
    assert len(set(evaluated)) == count
    assert len(found.candidates) == min(count, 16)


def test_a_refused_shape_is_not_searched_for_again(evaluated: list[str]) -> None:
    run(node("n", slots=0), *(job(f"j{i}") for i in range(5)))
    assert len(evaluated) == 1
    over = History(backoffs={(f"uid-j{i}", "n"): Backoff(1, NOW, "NodeLost") for i in range(5)})
    run(node("n", slots=0), *(job(f"j{i}") for i in range(5)), history=over)
    assert len(evaluated) == 2


@pytest.mark.parametrize("place", ["n", EVERY_NODE])
def test_a_refusal_for_a_backoff_is_no_answer_for_others_of_its_shape(place: str) -> None:
    history = History(backoffs={("uid-a", place): Backoff(1, NOW + 60, "NotStarted")})
    decision = run(node("n"), job("a"), job("b"), history=history)
    assert outcome(decision, "a").action is Action.WAIT
    assert outcome(decision, "b").action is Action.PLACE
    refused = run(node("n", slots=0), job("0"), job("a"), history=history)
    assert "after NotStarted" in outcome(refused, "a").message


@pytest.mark.parametrize(("place", "count"), [("n039", 16), ("n000", 32), (EVERY_NODE, 32)])
def test_a_backoff_from_a_node_that_is_not_told_of_is_no_reason_to_search_again(
    evaluated: list[str], place: str, count: int
) -> None:
    """16 of 40 full nodes are told, in their order."""
    history = History(backoffs={("uid-j1", place): Backoff(1, NOW + 60, "NodeLost")})
    parts = many(40, jobs=2)
    decision = run(*parts, job("j0"), job("j1"), history=history)
    assert len(evaluated) == count
    assert outcome(decision, "j1").candidates == outcome(run(*parts, job("j1"), history=history), "j1").candidates
    assert ("after NodeLost" in str(outcome(decision, "j1").candidates)) is (count == 32)


@pytest.mark.parametrize("place", ["n000", EVERY_NODE])
def test_jobs_that_keep_away_from_the_same_nodes_are_searched_for_once(evaluated: list[str], place: str) -> None:
    """Each is told of its own back-off."""
    backoffs = {(f"uid-j{at}", place): Backoff(at, NOW + 60, f"Reason{at}") for at in range(1, 6)}
    decision = run(*many(40, jobs=2), *(job(f"j{at}") for at in range(1, 6)), history=History(backoffs=backoffs))
    assert len(evaluated) == 16
    for at in range(1, 6):
        refusals = {one.node: one.refusal for one in outcome(decision, f"j{at}").candidates}
        assert f"after Reason{at} (attempt {at} on " in refusals["n000"]
        assert all(f"Reason{other}" not in str(refusals) for other in range(1, 6) if other != at)


@pytest.mark.parametrize(("until", "action"), [(NOW - 1, Action.PLACE), (NOW, Action.PLACE), (NOW + 1, Action.WAIT)])
@pytest.mark.parametrize("place", ["n", EVERY_NODE])
def test_a_backoff_lasts_until_its_end(place: str, until: float, action: Action) -> None:
    history = History(backoffs={("uid-j", place): Backoff(1, until, "NotStarted")})
    assert outcome(run(node("n"), job("j"), history=history), "j").action is action


def test_backoffs_are_looked_at_once_however_many_jobs_wait() -> None:
    """Each back-off's end is read as often for 40 jobs as for one, by the decision and by the metrics."""

    class Counted(float):
        reads = 0

        def __gt__(self, other: object) -> bool:
            Counted.reads += 1
            return float(self) > other  # type: ignore[operator]

    def reads(count: int) -> int:
        Counted.reads = 0
        history = History(backoffs={(f"uid-x{i}", "n"): Backoff(1, Counted(NOW + 60), "NodeLost") for i in range(30)})
        parts = [node("n", slots=0), *(job(f"j{i}") for i in range(count))]
        Metrics().observe(world(*parts), history, run(*parts, history=history), NOW)
        return Counted.reads

    assert reads(40) == reads(1) == 60


class CountedUid(str):
    """A UID that counts how often it is looked up."""

    __slots__ = ()
    looked_up = 0

    def __hash__(self) -> int:
        CountedUid.looked_up += 1
        return str.__hash__(self)


def test_what_can_never_be_is_looked_up_once_however_many_jobs_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = Columns.most, []
    monkeypatch.setattr(Columns, "most", lambda *arguments: calls.append(0) or real(*arguments))  # type: ignore[func-returns-value]

    def looked_up(count: int) -> int:
        calls.clear()
        run(*many(20, slots=0), *(job(f"j{i}") for i in range(count)))
        return len(calls)

    assert looked_up(40) == looked_up(1) == 3


def test_a_job_is_not_looked_up_for_each_node() -> None:
    history = History(backoffs={("uid-x", "n000"): Backoff(1, NOW + 60, "NodeLost")})

    def look_ups(count: int) -> int:
        CountedUid.looked_up = 0
        run(*many(count, slots=0), job("j", uid=CountedUid("uid-j")), history=history)
        return CountedUid.looked_up

    assert look_ups(50) == look_ups(1)


def test_empty_devices_come_before_shared_ones() -> None:
    assert chosen([*many(20, jobs=1, idle=0.9), *many(1, name="z", idle=0.2)], job("j")) == "z000"


def test_a_set_is_made_of_what_an_earlier_one_of_the_pass_has_left() -> None:
    decision = run(
        node("n", *(device("n", f"g{i}") for i in range(4)), slots=4), *(job(f"j{i}", devices=2) for i in range(3))
    )
    found = [outcome(decision, f"j{i}").placement for i in range(3)]
    assert [placement and placement.devices for placement in found] == [("g0", "g1"), ("g2", "g3"), None]


def test_the_idlest_device_comes_first_wherever_its_node_stands() -> None:
    assert chosen([*many(20, idle=0.3), *many(1, name="z", idle=0.9)], job("j")) == "z000"


def test_a_device_that_just_fits_is_found_behind_many_that_do_not() -> None:
    parts = [*many(20, idle=0.9, memory=3 * GIB), *many(1, name="z", idle=0.2, memory=4 * GIB)]
    assert chosen(parts, job("j", memory=2 * GIB)) == "z000"


def test_shared_devices_go_by_what_is_left_for_the_newcomer() -> None:
    """0.225 is enough (0.2 and its margin are 0.222) and 0.20 is not, though these devices are idler by themselves."""
    parts = [*many(20, jobs=2, idle=0.6, slots=3), *many(1, name="z", jobs=1, idle=0.45, slots=3)]
    assert chosen(parts, job("j", sla=0.2), EXACT) == "z000"


def test_devices_without_a_slot_do_not_crowd_out_the_others_in_an_explanation() -> None:
    parts = [*many(20, jobs=2, idle=0.9), *many(1, name="z", jobs=1, idle=0.2)]
    told = outcome(run(*parts, job("j", sla=0.5)), "j").candidates
    assert len(told) == 16
    assert "z000" in {candidate.node for candidate in told}


@pytest.mark.parametrize("closed", [{"schedulable": False}, {"reported": NOW - LEASE - 1}])
def test_a_closed_node_stays_closed_when_it_holds_jobs(closed: dict[str, Any]) -> None:
    parts = [node("a", device("a", idle=0.9), **closed), placed(job("held"), "a"), node("b", device("b", idle=0.5))]
    decision = run(*parts, job("j"), job("k"), job("l"))
    assert [outcome(decision, name).action for name in "jkl"] == [Action.PLACE, Action.PLACE, Action.WAIT]
    assert {entry.placement.node for entry in decision.outcomes if entry.placement} == {"a", "b"}
    assert len(outcome(decision, "l").candidates) == 2


def test_closed_devices_fill_an_explanation_up_to_its_limit() -> None:
    parts = [*many(10, idle=0.1), *(node(f"z{i}", schedulable=False) for i in range(20))]
    found = outcome(run(*parts, job("j", sla=0.5)), "j")
    assert [candidate.refusal == "node is cordoned" for candidate in found.candidates] == [False] * 10 + [True] * 6


def test_closed_devices_are_told_by_name() -> None:
    nodes = [node(f"z{i:02}", device(f"z{i:02}", memory=2 * GIB), schedulable=False) for i in reversed(range(20))]
    found = outcome(run(*nodes, job("j")), "j")
    assert [candidate.node for candidate in found.candidates] == [f"z{i:02}" for i in range(16)]
    assert {candidate.refusal for candidate in found.candidates} == {"node is cordoned"}
    assert {(candidate.prediction.fraction, candidate.gain, candidate.rate) for candidate in found.candidates} == {
        (0.0, 0.0, 1.0)
    }


@pytest.mark.parametrize(("age", "action"), [(LATE_SECONDS, Action.PLACE), (LATE_SECONDS + 0.1, Action.WAIT)])
def test_a_node_whose_agent_is_heard_takes_jobs_until_its_report_is_late(age: float, action: Action) -> None:
    found = outcome(run(node("n", told=NOW - age), job("j")), "j")
    assert found.action is action
    assert ("its last report is" in found.message) == (action is Action.WAIT)


@pytest.mark.parametrize(("age", "action"), [(LEASE, Action.PLACE), (LEASE + 0.1, Action.WAIT)])
def test_a_node_takes_jobs_for_as_long_as_a_lease_lasts(age: float, action: Action) -> None:
    assert outcome(run(node("n", reported=NOW - age), job("j")), "j").action is action


def test_a_device_of_unknown_memory_fits_nothing() -> None:
    found = outcome(run(node("n", device("n", online_memory=None)), job("j")), "j")
    assert [candidate.prediction.fits for candidate in found.candidates] == [False]


def test_excluded_nodes_are_told_behind_sets_that_were_looked_at() -> None:
    world = [*many(1, name="a", devices=2, idle=0.9), *many(1, name="b", devices=2, idle=0.1, labels={"zone": "a"})]
    found = outcome(run(*world, job("j", devices=2, sla=0.5, constraints=IN_A)), "j")
    assert [candidate.node for candidate in found.candidates] == ["b000", "a000"]


@pytest.mark.parametrize("aligned", [True, False])
def test_sets_that_cannot_be_do_not_use_up_a_nodes_share_of_the_search(aligned: bool) -> None:
    """Six devices without room, or unlike all others, stand before the two that fit."""
    late, early = ((NOW - 10, NOW),), ((NOW - 60, NOW - 55),)
    first = [
        device(
            "n",
            f"g{i}",
            idle=0.8,
            **({"busy": ((NOW - 50 + 5 * i, NOW - 45 + 5 * i),)} if aligned else {"memory": GIB}),
        )
        for i in range(6)
    ]
    last = [device("n", f"g{i}", idle=0.5, busy=early if aligned else late) for i in (6, 7)]
    found = outcome(run(node("n", *first, *last), job("j", devices=2)), "j")
    assert found.placement is not None
    assert found.placement.devices == ("g6", "g7")


def test_full_devices_do_not_use_up_a_nodes_share_of_the_search() -> None:
    devices = [device("n", f"g{i}", idle=0.9 if i < 6 else 0.2) for i in range(8)]
    held = [placed(job(f"h{i}{k}"), "n", f"g{i}") for i in range(6) for k in range(2)]
    found = outcome(run(node("n", *devices), *held, job("j", devices=2)), "j")
    assert found.placement is not None
    assert found.placement.devices == ("g6", "g7")


def test_the_other_devices_of_a_node_without_slots_do_not_stand_before_a_free_one() -> None:
    """Of its two slots both are taken, so that the three that nobody holds are none."""
    held = placed(job("h", devices=2), "n", "g0", "g1")
    full = node("n", *(device("n", f"g{i}", idle=0.9) for i in range(5)), slots=2)
    assert chosen([full, held, *many(1, name="z", idle=0.2)], job("j")) == "z000"


def test_a_job_joins_one_that_another_has_slowed_down_already() -> None:
    """`w` is on both devices; once `a` has halved it on one of them, who joins it on the other costs it nothing."""
    held = placed(job("w", devices=2), "n", "g0", "g1")
    parts = [*many(20, name="a", idle=1.0, memory=2 * GIB), node("n", device("n", "g0"), device("n", "g1")), held]
    decision = run(*parts, job("a", priority=1), job("b"))
    found = [outcome(decision, name).placement for name in "ab"]
    assert [placement and placement.devices for placement in found] == [("g0",), ("g1",)]


def test_devices_that_just_fit_are_found_behind_one_that_does_not() -> None:
    pools = {"g0": 3 * GIB, "g1": 4 * GIB, "g2": 4 * GIB}
    world = node("n", *(device("n", id_, idle=0.9 if id_ == "g0" else 0.5, memory=pools[id_]) for id_ in pools))
    found = outcome(run(world, job("j", devices=2, memory=2 * GIB)), "j")
    assert found.placement is not None
    assert found.placement.devices == ("g1", "g2")


def test_sets_with_enough_memory_are_found_behind_all_that_have_not() -> None:
    """The first 16 sets of the last node have one of its three idlest devices, which are short of memory."""
    short = [device("z", f"g{i}", idle=0.9, memory=3 * GIB) for i in range(3)]
    last = node("z", *short, *(device("z", f"g{i}", idle=0.5) for i in range(3, 8)))
    found = outcome(run(*STUFFED, last, job("j", devices=2, memory=2 * GIB)), "j")
    assert found.placement is not None, found.message
    assert found.placement.devices == ("g3", "g4")


def test_sets_that_keep_the_sla_are_found_behind_all_that_do_not() -> None:
    """The first 16 sets of the last node have one of its three empty devices, which are hardly idle."""
    empty = [device("z", f"g{i}", idle=0.2) for i in range(3)]
    last = node("z", *empty, *(device("z", f"g{i}", idle=0.9) for i in range(3, 8)))
    held = [placed(job(f"h{i}"), "z", f"g{i}") for i in range(3, 8)]
    found = outcome(run(*STUFFED, last, *held, job("j", devices=2, sla=0.3)), "j")
    assert found.placement is not None, found.message
    assert found.placement.devices == ("g3", "g4")


def test_the_best_aligned_set_is_not_always_the_idlest() -> None:
    early, late = ((NOW - 60, NOW - 30),), ((NOW - 30, NOW),)
    world = node(
        "n",
        device("n", "g0", idle=0.5, busy=early),
        device("n", "g1", idle=0.49, busy=late),
        device("n", "g2", idle=0.45, busy=early),
    )
    found = outcome(run(world, job("j", devices=2)), "j")
    assert found.placement is not None
    assert found.placement.devices == ("g0", "g2")


@pytest.mark.parametrize(("overlap", "action"), [(30.0, Action.PLACE), (29.0, Action.WAIT)])
def test_devices_are_aligned_from_the_threshold_on(overlap: float, action: Action) -> None:
    """40 busy seconds each; 30 of them together are 30 / 50 = 0.6."""
    second = NOW - 60 + 40 - overlap
    world = node(
        "n",
        device("n", "unlike", idle=0.9, busy=((NOW - 60, NOW - 59),)),
        device("n", "g0", idle=0.3, busy=((NOW - 60, NOW - 20),)),
        device("n", "g1", idle=0.3, busy=((second, second + 40),)),
    )
    assert outcome(run(world, job("j", devices=2)), "j").action is action


def test_the_least_aligned_pair_decides() -> None:
    early, late = ((NOW - 60, NOW - 30),), ((NOW - 30, NOW),)
    spans = [early, early, late]
    world = node("n", *(device("n", f"g{i}", idle=0.5, busy=span) for i, span in enumerate(spans)))
    assert "alignment 0.00 < 0.60" in outcome(run(world, job("j", devices=3)), "j").message


def test_devices_are_named_in_order() -> None:
    world = node("n", device("n", "g0", idle=0.5), device("n", "g1", idle=0.6))
    found = outcome(run(world, job("j", devices=2)), "j")
    assert found.placement is not None
    assert found.placement.devices == ("g0", "g1")


def test_a_single_device_is_aligned_with_itself() -> None:
    found = outcome(run(node("n"), job("j")), "j")
    assert [candidate.prediction.alignment for candidate in found.candidates] == [1.0]


STUFFED = many(16, name="a", devices=2, idle=1.0, memory=2 * GIB)
"""They are looked at first and explain why not: the search may end from there on."""


def test_the_best_set_is_found_behind_any_number_of_small_gains() -> None:
    """Each adds 0.0005 devices; the last one adds 0.6."""
    names = [f"n{number:03}" for number in range(40)]
    nodes = [node(name, device(name, "g0", idle=0.9), device(name, "g1", idle=0.4505)) for name in names]
    singles = [placed(job(f"s{name}"), name, "g0") for name in names]
    parts = [*STUFFED, *nodes, *singles, *many(1, name="z", devices=2, idle=0.3)]
    assert chosen(parts, job("j", devices=2)) == "z000"


def test_a_set_that_adds_something_is_found_behind_any_number_that_add_nothing() -> None:
    parts = [*STUFFED, *many(100, devices=2, jobs=1, idle=0.9), *many(1, name="z", devices=2, idle=0.2)]
    assert chosen(parts, job("j", devices=2)) == "z000"


def test_a_set_that_costs_nothing_is_found_behind_any_number_of_losses() -> None:
    parts: list[Part] = [*STUFFED]
    for number in range(100):
        name = f"n{number:03}"
        full = device(name, "g2", idle=0.9, memory=3 * GIB)
        parts.append(node(name, device(name, "g0", idle=0.9), device(name, "g1", idle=0.9), full))
        parts.append(placed(job(f"w{number}", devices=3), name, "g0", "g1", "g2"))
    parts += many(1, name="z", devices=2, idle=0.2)
    assert chosen(parts, job("j", devices=2, priority=1)) == "z000"


def test_refused_sets_do_not_count() -> None:
    parts = [*many(70, devices=3, jobs=1, idle=0.9), *many(1, name="z", devices=2, jobs=1, idle=0.2)]
    assert chosen(parts, job("j", devices=2)) == "z000"


def test_empty_sets_come_before_shared_ones() -> None:
    parts = [*many(64, devices=2, jobs=1, idle=0.6), *many(1, name="z", devices=2, idle=0.5)]
    assert chosen(parts, job("j", devices=2)) == "z000"


def test_nodes_go_by_their_best_devices() -> None:
    idles = [0.1, 0.9, 0.1, 0.9]
    last = node("z", *(device("z", f"g{i}", idle=idle) for i, idle in enumerate(idles)))
    found = outcome(run(*many(20, devices=2, idle=0.2), last, job("j", devices=2)), "j")
    assert found.placement is not None
    assert (found.placement.node, found.placement.devices) == ("z", ("g1", "g3"))


@pytest.mark.parametrize("devices", [1, 2])
def test_a_bound_that_just_meets_the_sla_is_looked_at(devices: int) -> None:
    need = EXACT.promise("class", 0.3).need(0.0)
    parts = [
        *many(20, name="a", devices=devices, idle=1.0, memory=2 * GIB),
        *many(1, name="z", devices=devices, idle=need),
    ]
    assert chosen(parts, job("j", devices=devices, sla=0.3), EXACT) == "z000"


def test_who_holds_no_devices_holds_slots_all_the_same() -> None:
    stranger = pod(job("old", devices=3), "n")
    decision = run(node("n", slots=2), stranger, job("j"))
    assert "no free harvest slot (0 of 2 free on the node)" in outcome(decision, "j").message


def test_devices_stay_in_order_for_jobs_with_different_constraints() -> None:
    """Sets of nodes, asked for in turn, each twice."""
    parts = [node(f"n{i:02}", slots=2, labels={"host": f"n{i:02}"}) for i in range(40)]
    hosts = [constraints_of({"spec": {"nodeSelector": {"host": f"n{i:02}"}}}) for i in range(40)]
    jobs = [job(f"j{turn}{i:02}", constraints=hosts[i]) for turn in range(3) for i in range(40)]
    decision = run(*parts, *jobs)
    for turn, action in enumerate((Action.PLACE, Action.PLACE, Action.WAIT)):
        assert {outcome(decision, f"j{turn}{i:02}").action for i in range(40)} == {action}


def needing(*terms: dict[str, list[str]]) -> dict[str, Any]:
    """A spec with these alternatives as required node affinity."""
    found = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": values} for key, values in term.items()]}
        for term in terms
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": found}}
    return {"affinity": {"nodeAffinity": required}}


@pytest.mark.parametrize(
    ("asked", "nodes"),
    [
        ({"nodeSelector": {"zone": "a", "host": "n07"}}, ["n07"]),
        ({"nodeSelector": {"zone": "a", "host": "none"}}, []),
        ({"nodeName": "n07"}, ["n07"]),
        ({"nodeName": "none"}, []),
        ({"nodeName": "n07", "nodeSelector": {"host": "n08"}}, []),
        (needing({"host": ["n07"]}), ["n07"]),
        (needing({"zone": ["a"], "host": ["n07"]}), ["n07"]),
        (needing({"host": ["none"]}), []),
        ({"nodeSelector": {"zone": "a"}, **needing({"host": ["n07"]})}, ["n07"]),
    ],
)
def test_a_pod_runs_on_the_nodes_that_it_asks_for(asked: dict[str, Any], nodes: list[str]) -> None:
    parts = [node(f"n{i:02}", labels={"host": f"n{i:02}", "zone": "a"}) for i in range(20)]
    found = outcome(run(*parts, job("j", constraints=constraints_of({"spec": asked}))), "j")
    assert ([found.placement.node] if found.placement else []) == nodes


def test_excluded_devices_are_told_behind_those_that_were_looked_at_the_idlest_first() -> None:
    parts = [
        *many(3, name="a", idle=0.9),
        *many(9, name="b", idle=0.5, labels={"zone": "a"}),
        *many(9, name="c", idle=0.1),
    ]
    refused = outcome(run(*parts, job("j", sla=0.6, constraints=IN_A)), "j")
    assert [entry.node[0] for entry in refused.candidates] == [*"b" * 9, *"a" * 3, *"c" * 4]


def test_throughput_is_compared_and_not_fractions() -> None:
    """Half of a device that is three times as fast is worth more than 0.9 of the slow one."""
    slow, fast = device("a", idle=0.9), replace(device("b", idle=0.5), type="gpu")
    known = History(profiles={("class", "cpu"): Profile(100.0, 60.0, NOW), ("class", "gpu"): Profile(300.0, 60.0, NOW)})
    assert chosen([node("a", slow), node("b", fast)], job("j")) == "a"
    found = outcome(run(node("a", slow), node("b", fast), job("j"), history=known), "j")
    assert [(entry.node, entry.gain, entry.rate) for entry in found.candidates] == [
        ("b", 0.5, 1.0), ("a", pytest.approx(0.3), pytest.approx(1 / 3)),
    ]  # fmt: skip
    assert chosen([node("a", slow), node("b", fast)], job("j", workload="other"), known) == "a"
    assert chosen([node("a", slow), node("b", replace(fast, type="new"))], job("j"), known) == "b"


@pytest.mark.parametrize("devices", [1, 2])
def test_a_type_on_which_the_class_was_never_seen_is_tried_before_one_that_is_known_to_be_slow(devices: int) -> None:
    known = History(profiles={("class", "cpu"): Profile(100.0, 60.0, NOW), ("class", "gpu"): Profile(300.0, 60.0, NOW)})
    new = node("z", *(replace(device("z", f"g{i}", idle=0.5), type="new") for i in range(devices)))
    parts = [*many(20, devices=devices, idle=0.9), new]
    assert chosen(parts, job("j", devices=devices), known) == "z"


def test_a_set_goes_at_the_pace_of_its_slowest_device() -> None:
    known = History(profiles={("class", "cpu"): Profile(100.0, 60.0, NOW), ("class", "gpu"): Profile(200.0, 60.0, NOW)})
    mixed = node("a", device("a", "g0", idle=0.9), replace(device("a", "g1", idle=0.9), type="gpu"))
    fast = node("b", *(replace(device("b", f"g{i}", idle=0.5), type="gpu") for i in range(2)))
    found = outcome(run(mixed, fast, job("j", devices=2), history=known), "j")
    assert found.candidates[0].node == "b"
    assert found.candidates[0].gain == 1.0
    alone = outcome(run(mixed, job("j", devices=2), history=known), "j")
    assert (alone.candidates[0].gain, alone.candidates[0].rate) == (0.9, 0.5)
    assert alone.message.endswith("(idle 0.90 x sharing 1.00), x rate 0.50")


def test_of_a_nodes_sets_the_one_with_most_throughput_is_taken() -> None:
    """The idlest pair is slow: 2 x 0.9 x 0.25 devices beside 2 x 0.5."""
    known = History(profiles={("class", "cpu"): Profile(100.0, 60.0, NOW), ("class", "gpu"): Profile(400.0, 60.0, NOW)})
    slow = [device("n", f"g{i}", idle=0.9) for i in range(2)]
    fast = [replace(device("n", f"g{i}", idle=0.5), type="gpu") for i in range(2, 4)]
    found = outcome(run(node("n", *slow, *fast), job("j", devices=2), history=known), "j")
    assert (found.candidates[0].devices, found.candidates[0].gain) == (("g2", "g3"), 1.0)


def test_a_search_with_rates_ends_where_no_node_can_be_better(evaluated: list[str]) -> None:
    """All are slow: 40 nodes of three pairs each, of which the first node's alone are looked at."""
    known = History(profiles={("class", "cpu"): Profile(100.0, 60.0, NOW), ("class", "gpu"): Profile(400.0, 60.0, NOW)})
    found = outcome(run(*many(40, devices=3), job("j", devices=2), history=known), "j")
    assert (found.candidates[0].place, found.candidates[0].rate) == ("n000/g0+g1", 0.25)
    assert evaluated == ["n000/g0+g1", "n000/g0+g2", "n000/g1+g2"]


def test_what_a_neighbour_loses_counts_by_its_own_pace() -> None:
    """`a` is on a type where it does half of its best: what it loses is half as much."""
    known = History(profiles={("slow", "cpu"): Profile(100.0, 60.0, NOW), ("slow", "gpu"): Profile(200.0, 60.0, NOW)})
    found = outcome(run(node("n"), placed(job("a", workload="slow"), "n"), job("j"), history=known), "j")
    # It gets 0.4, and `a` falls from 0.8 to 0.4, of which half counts.
    assert found.candidates[0].gain == pytest.approx(0.2)

"""What each engine gives the next one who rides in it, while a pass decides."""

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from scheduler.builders import NOW, POLICY, device, job, node
from scheduler.placement.test_seats import MODEL, engine, rider

from rowen.scheduler.history import History
from rowen.scheduler.model.promise import Promise
from rowen.scheduler.monitor.backoff import Backoff
from rowen.scheduler.placement.constraints import Constraints
from rowen.scheduler.placement.fleet.claims import Claim
from rowen.scheduler.placement.fleet.columns import NEVER
from rowen.scheduler.placement.fleet.fleet import Fleet
from rowen.scheduler.placement.fleet.forecast import riding
from rowen.scheduler.placement.fleet.seats import Seats
from rowen.scheduler.placement.search.places import Places
from rowen.scheduler.snapshot import JobView, NodeView


def fleet(*nodes: NodeView, parts: Any = None) -> Fleet:
    return Fleet({view.name: view for view in nodes}, NOW, POLICY, parts or {})


def keys(seats: Seats) -> list[float]:
    found = seats.serving("ns", MODEL)
    assert found is not None
    return [round(key, 6) if key > NEVER else NEVER for key in found.keys.tolist()]


def claim(key: str, *, rides: bool, on: str = "a", id_: str = "cpu0", **fields: Any) -> Claim:
    return Claim(key, f"ns/{key}", on, (id_,), 0 if rides else 1, 0 if rides else 2**30, rides=rides, **fields)


def test_engines_are_found_by_what_they_serve() -> None:
    there = fleet(
        node("a", device("a", "cpu0"), engine("a", "cpu1", idle=0.5), engine("a", "cpu2", model="models/other")),
        node("b", engine("b", idle=0.9, args=["--x"])),
    )
    seats = Seats(there)
    found = seats.serving("ns", MODEL)
    assert found is not None
    assert [there.device(int(row)).view.key for row in found.rows] == [("a", "cpu1"), ("b", "cpu0")]
    assert [found.args[at] for at in found.args_of] == [(), ("--x",)]
    assert keys(seats) == [0.55, 0.91]
    assert seats.serving("theirs", MODEL) is None
    assert seats.serving("ns", "models/none") is None
    assert seats.namespaces == {"ns"}


@pytest.mark.parametrize(
    "there",
    [
        node("a", engine("a", seats=0)),
        node("a", engine("a", ended="out of memory")),
        node("a", engine("a", refusal="not offered")),
        node("a", engine("a", attached=False)),
        node("a", engine("a"), ready=False),
        node("a", engine("a"), reported=NOW - 3600.0),
    ],
)
def test_where_nobody_rides(there: NodeView) -> None:
    seats = Seats(fleet(there))
    assert keys(seats) == [NEVER]
    assert seats.serving("ns", MODEL).full  # type: ignore[union-attr]


def test_who_comes_and_goes_is_taken_into_account() -> None:
    there = fleet(node("a", engine("a"), engine("a", "cpu1")))
    seats = Seats(there)
    assert keys(seats) == [0.82, 0.82]
    first, second = claim("r", rides=True), claim("s", rides=True)
    there.add(first)
    assert keys(seats) == [0.41, 0.82]
    there.add(second)
    assert keys(seats) == [round(0.82 / 3, 6), 0.82]
    there.remove(first)
    there.remove(second)
    assert keys(seats) == [0.82, 0.82]
    beside = claim("own", rides=False, id_="cpu1")
    there.add(beside)
    assert keys(seats) == [0.82, NEVER]
    there.remove(beside)
    assert keys(seats) == [0.82, 0.82]


def test_who_was_there_before_is_taken_into_account() -> None:
    there = fleet(node("a", engine("a"), engine("a", "cpu1")))
    there.add(claim("r", rides=True))
    assert keys(Seats(there)) == [0.41, 0.82]


def test_what_was_measured_stands_in_for_what_is_assumed() -> None:
    there = fleet(node("a", engine("a"), engine("a", "cpu1")), parts={("a", "cpu0"): 0.3, ("a", "cpu1"): 0.9})
    for id_ in ("cpu0", "cpu1"):
        there.add(claim(f"r-{id_}", rides=True, id_=id_))
    assert keys(Seats(there)) == [0.15, 0.45]
    assert there.standing(claim("r-cpu0", rides=True)).fraction == pytest.approx(0.3)


def test_how_sure_it_is_of_what_it_gives() -> None:
    there = fleet(node("a", engine("a", deviation=0.1), engine("a", "cpu1", idle=0.0, deviation=0.02)))
    seats = Seats(there)
    for _ in range(2):
        found = seats.serving("ns", MODEL)
        assert found is not None
        each = [riding(there.device(row), len(there.device(row).riders) + 1) for row in found.rows.tolist()]
        assert found.keys.tolist() == pytest.approx([one.fraction for one in each])
        assert found.uncertainties.tolist() == pytest.approx([one.uncertainty for one in each])
        there.add(claim("r", rides=True))


def test_riders_are_each_others_neighbours_alone() -> None:
    there = fleet(node("a", engine("a"), engine("a", "cpu1")))
    for found in (claim("r", rides=True), claim("s", rides=True), claim("own", rides=False, id_="cpu1")):
        there.add(found)
    assert there.neighbours(claim("r", rides=True)) == ["s"]
    assert there.neighbours(claim("own", rides=False, id_="cpu1")) == []
    assert there.standing(claim("r", rides=True)).fraction == pytest.approx(0.41)
    assert there.standing(claim("r", rides=True), without=["s"]).fraction == pytest.approx(0.82)
    assert there.standing(claim("x", rides=True, on="gone")).fraction == 0.0


def test_riders_take_no_slot_and_no_memory_and_close_the_device_to_others() -> None:
    there = fleet(node("a", engine("a"), engine("a", "cpu1")))
    before = there.node(0).free_slots, there.device(0).free
    there.add(claim("r", rides=True))
    assert (there.node(0).free_slots, there.device(0).free) == before
    assert there.settled().takes.tolist() == [False, True]


@pytest.mark.parametrize(
    ("promise", "short", "want"),
    [(0.35, False, 0.41), (0.4, False, NEVER), (0.1, True, NEVER), (None, False, 0.41)],
)
def test_a_promise_holds_for_those_who_come_later(promise: float | None, short: bool, want: float) -> None:
    there = fleet(node("a", engine("a")))
    there.add(claim("r", rides=True, promise=Promise(promise), short=short))
    assert keys(Seats(there)) == [want]


def test_both_constraints_and_backoffs_keep_a_job_away() -> None:
    parts = [
        node(name, engine(name, idle=idle), labels={"zone": zone})
        for name, idle, zone in (("a", 0.9, "x"), ("b", 0.8, "x"), ("c", 0.7, "y"))
    ]
    there = fleet(*parts)
    places = Places(there, History(), POLICY)
    request = places.request(rider("j"), {})
    assert places.seat(request).candidate.node == "a"  # type: ignore[union-attr]
    away = replace(request, away={"a": "such a job is there", "nowhere": ""})
    assert places.seat(away).candidate.node == "b"  # type: ignore[union-attr]
    zoned = replace(away, job=replace(away.job, constraints=replace(away.job.constraints, selector=(("zone", "y"),))))
    assert places.seat(zoned).candidate.node == "c"  # type: ignore[union-attr]
    everywhere = replace(request, away=dict.fromkeys("abc", "such a job is there"))
    assert places.seat(everywhere).refusal == "a/cpu0: such a job is there"


def test_who_may_ride_is_known_before_a_search() -> None:
    there = fleet(node("a", engine("a", seats=1)))
    places = Places(there, History(), POLICY)

    def may_ride(view: JobView, backoffs: Any = MappingProxyType({})) -> bool:
        return places.may_ride(view, lambda job: places.request(job, backoffs))

    jobs = [rider("j"), job("i"), rider("k", "lora.dropout above 0"), rider("l", namespace="other")]
    assert [may_ride(view) for view in jobs] == [True, False, False, False]
    refused = replace(rider("m"), status=rider("m").status.model_copy(update={"ride_refused": "x"}))
    assert not may_ride(refused)
    assert not may_ride(rider("j", constraints=Constraints(node="b")))
    assert not may_ride(rider("j"), {"a": Backoff(1, NOW + 60.0, "NotStarted")})
    assert not may_ride(rider("j", sla=0.9))
    there.add(claim("r", rides=True))
    assert not may_ride(rider("j"))

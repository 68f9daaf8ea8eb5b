"""What is kept of offers while claims come is what all places, looked at one by one, offer."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler.builders import GIB, NOW, POLICY, device, job, node

from rowen.scheduler.history import History
from rowen.scheduler.model.memory import linear_need
from rowen.scheduler.placement.fleet.columns import ALL
from rowen.scheduler.placement.fleet.fleet import Fleet
from rowen.scheduler.placement.search.choice import choose, claim_of
from rowen.scheduler.placement.search.evaluation import evaluate
from rowen.scheduler.placement.search.request import Request
from rowen.scheduler.snapshot import JobView, NodeView

HISTORY = History()
KINDS = [
    job("j", priority=priority, sla=sla, pool=want * GIB, need=linear_need(want * GIB, 0.1, 0.3) if want else None)
    for want in (0, 2, 8)
    for sla, priority in ((None, 0), (None, 1), (0.1, 0), (0.3, 1))
]


@st.composite
def open_nodes(draw: st.DrawFn, name: str) -> NodeView:
    """Each device takes up to three."""
    devices: list[Any] = []
    for number in range(draw(st.integers(1, 3))):
        lent = draw(st.lists(st.integers(0, 8), max_size=3) | st.lists(st.integers(0, 8), min_size=8, max_size=8))
        idle, doubt = draw(st.sampled_from([0.3, 0.5, 0.7, 0.9])), draw(st.sampled_from([0.0, 0.05]))
        available = tuple(sorted(amount * GIB for amount in lent))
        devices.append(device(name, f"g{number}", idle=idle, deviation=doubt, available=available, memory=64 * GIB))
    return node(name, *devices, slots=3 * len(devices))


def request_of(view: JobView) -> Request:
    return Request(view, HISTORY.promise(view.workload, view.sla), {}, appetite=HISTORY.appetite(view))


def told(fleet: Fleet, request: Request) -> list[list[float]]:
    offer = fleet.offer(request.appetite, request.job.memory).exact()
    columns = offer.shares, offer.keys, offer.uncertainties(ALL), offer.keeps(request.promise), offer.loss, offer.takes
    return [column.tolist() for column in columns]


@settings(max_examples=60)
@given(st.tuples(open_nodes("a"), open_nodes("b")), st.lists(st.sampled_from(KINDS), min_size=4, max_size=8))
def test_each_choice_is_the_best_of_all_places(found: tuple[NodeView, ...], asked: list[JobView]) -> None:
    """Jobs of any kind take turns, so that each offer is asked again after others were taken."""
    nodes, claims = {view.name: view for view in found}, []
    fleet = Fleet(nodes, NOW, POLICY)
    for kind in KINDS:
        choose(request_of(kind), fleet, POLICY)
    for number, kind in enumerate(asked):
        request = request_of(replace(kind, uid=f"uid-{number}"))
        chosen = choose(request, fleet, POLICY).chosen
        fresh = Fleet(nodes, NOW, POLICY)
        for claim in claims:
            fresh.add(claim)
        for other in map(request_of, KINDS):
            assert told(fleet, other) == told(fresh, other)
        places = [state for at in range(len(nodes)) for state in fresh.node(at).open_devices()]
        everything = [evaluate(request, fresh, (state,), POLICY) for state in places]
        fitting = [candidate for candidate in everything if not candidate.refusal]
        assert chosen == min(fitting, key=lambda candidate: candidate.rank, default=None)
        if chosen is not None:
            claims.append(claim_of(request.job, chosen.node, chosen.devices, request.promise, request.appetite, 1.0))
            fleet.add(claims[-1])

"""What a pass has refused once answers jobs with back-offs, too: they go where a search of their own would put them."""

from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler.builders import GIB, NOW, POLICY, device, job, node, world

from rowen.scheduler.decision import decide
from rowen.scheduler.history import History
from rowen.scheduler.monitor.backoff import EVERY_NODE, Backoff, BackoffKey
from rowen.scheduler.placement.search import places
from rowen.scheduler.snapshot import JobView, NodeView, Snapshot

NAMES = [f"n{number:02}" for number in range(20)]
"""More than an explanation tells of."""


@st.composite
def worlds(draw: st.DrawFn) -> Snapshot:
    """Nodes with few slots, and jobs of few kinds, some of which no node suits."""
    parts: list[NodeView | JobView] = []
    for name in NAMES:
        idle, memory = draw(st.sampled_from([0.2, 0.5, 0.8])), draw(st.sampled_from([2, 3, 8])) * GIB
        parts.append(
            node(name, *(device(name, f"g{at}", idle=idle, memory=memory) for at in range(draw(st.integers(1, 2)))),
                 slots=draw(st.sampled_from([0, 0, 1, 2])))
        )  # fmt: skip
    for number in range(draw(st.integers(34, 40))):
        sla, devices = draw(st.sampled_from([None, 0.3, 0.6])), draw(st.sampled_from([1, 1, 2]))
        parts.append(job(f"j{number:02}", sla=sla, devices=devices, memory=draw(st.sampled_from([1, 3])) * GIB))
    return world(*parts)


@st.composite
def backoffs(draw: st.DrawFn) -> dict[BackoffKey, Backoff]:
    """Of half the jobs, on up to three nodes or on all, each for a reason of its own."""
    found = {}
    for number in range(0, 40, 2):
        for place in draw(st.sets(st.sampled_from([*NAMES, *NAMES, EVERY_NODE]), max_size=3)):
            found[f"uid-j{number:02}", place] = Backoff(1 + number, NOW + 60.0 + number, f"Reason{number:02}")
    return found


@settings(max_examples=60)
@given(worlds(), backoffs())
def test_a_job_with_back_offs_goes_where_a_search_of_its_own_puts_it(
    snapshot: Snapshot, away: dict[BackoffKey, Backoff]
) -> None:
    """More than 32 jobs wait, so that none of their places are chosen together."""
    history = History(backoffs=away)
    answered = decide(snapshot, history, NOW, POLICY)
    with patch.object(places.Places, "_known", lambda *asked: None):
        searched = decide(snapshot, history, NOW, POLICY)
    assert [(found.job.uid, found.action, found.placement) for found in answered.outcomes] == [
        (found.job.uid, found.action, found.placement) for found in searched.outcomes
    ]
    for found in answered.outcomes:
        told = {candidate.node: candidate.refusal for candidate in found.candidates}
        for (uid, place), backoff in away.items():
            if uid == found.job.uid and (place == EVERY_NODE or place in told) and found.placement is None:
                refusals = told.values() if place == EVERY_NODE else [told[place]]
                assert all(backoff.reason in refusal for refusal in refusals)

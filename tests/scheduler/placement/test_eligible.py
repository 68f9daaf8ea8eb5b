"""The nodes for a pod, found for all at once: those that `admits` says one by one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler.builders import node

from rowen.scheduler.placement.constraints import (
    NODE_FIELD,
    Constraints,
    Requirement,
    Taint,
    Term,
    Toleration,
    VolumeLimit,
)
from rowen.scheduler.placement.eligibility import admits, integer
from rowen.scheduler.placement.fleet import eligible
from rowen.scheduler.placement.fleet.eligible import Eligible
from rowen.scheduler.snapshot import NodeView

KEYS, VALUES = ("zone", "disk", "cores"), ("a", "b", "4", "16", "-1")
TAINTS = [Taint("dedicated", "db", "NoSchedule"), Taint("spot", "", "NoExecute"), Taint("old", "", "PreferNoSchedule")]
NAMES = ("n0", "n1", "n2", "n3", "n4")

requirements = st.one_of(
    st.builds(
        Requirement,
        st.sampled_from(KEYS),
        st.sampled_from(("In", "NotIn")),
        st.lists(st.sampled_from(VALUES), min_size=1, max_size=2).map(tuple),
    ),
    st.builds(Requirement, st.sampled_from(KEYS), st.sampled_from(("Exists", "DoesNotExist"))),
    st.builds(
        Requirement,
        st.sampled_from(KEYS),
        st.sampled_from(("Gt", "Lt")),
        st.sampled_from(VALUES).map(lambda one: (one,)),
    ),
)
fields = st.builds(
    Requirement,
    st.just(NODE_FIELD),
    st.sampled_from(("In", "NotIn")),
    st.lists(st.sampled_from((*NAMES, "none")), min_size=1, max_size=2).map(tuple),
)
alternatives = st.lists(
    st.builds(Term, st.lists(requirements, max_size=2).map(tuple), st.lists(fields, max_size=1).map(tuple)), max_size=2
).map(tuple)
constraints = st.builds(
    Constraints,
    node=st.sampled_from(("", "", "", *NAMES, "none")),
    selector=st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(VALUES)), max_size=1).map(tuple),
    terms=st.none() | alternatives,
    tolerations=st.lists(
        st.builds(Toleration, st.sampled_from(("", "dedicated", "spot")), st.just("Exists")), max_size=1
    ).map(tuple),
    volumes=st.lists(st.builds(VolumeLimit, alternatives, st.just("volume claim x")), max_size=2).map(tuple),
)


@st.composite
def views(draw: st.DrawFn) -> list[NodeView]:
    """Some nodes with labels and taints; none at all, too."""
    labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
    taints = st.lists(st.sampled_from(TAINTS), max_size=2, unique=True).map(tuple)
    return [node(name, labels=draw(labels), taints=draw(taints)) for name in NAMES[: draw(st.integers(0, 5))]]


def of(nodes: list[NodeView], closed: frozenset[str] = frozenset()) -> Eligible:
    refusals = ["cordoned" if view.name in closed else "" for view in nodes]
    return Eligible(nodes, refusals, {view.name: number for number, view in enumerate(nodes)})


@settings(max_examples=400)
@given(views(), st.lists(constraints, min_size=1, max_size=3), st.frozensets(st.sampled_from(NAMES), max_size=2))
def test_they_are_those_that_admit_it(nodes: list[NodeView], asked: list[Constraints], closed: frozenset[str]) -> None:
    found = of(nodes, closed)
    for one in (*asked, *asked):
        expected = {number for number, view in enumerate(nodes) if view.name not in closed and admits(view, one)}
        assert found.nodes(one) == expected


def test_256_constraints_are_remembered_and_no_more() -> None:
    found = of([node(name, labels={"zone": name}) for name in NAMES])
    many = [Constraints(terms=(Term((Requirement("zone", "NotIn", (f"z{at}", "n1")),)),)) for at in range(257)]
    answers = [found.nodes(one) for one in many[:256]]
    assert all(answer == {0, 2, 3, 4} for answer in answers)
    assert all(found.nodes(one) is answer for one, answer in zip(many, answers, strict=False))
    assert found.nodes(many[256]) == {0, 2, 3, 4}
    assert list(found._known) == [many[256]]


def test_each_value_of_a_label_is_read_once_however_many_terms_compare_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many terms as a template may have: jobs of one tenant, each with others, would hold up every pass."""
    read: list[str | None] = []

    def reading(text: str | None) -> int | None:
        read.append(text)
        return integer(text)

    monkeypatch.setattr(eligible, "integer", reading)
    found = of([node(f"n{number}", labels={"cores": str(number)}) for number in range(200)])
    terms = [Term(tuple(Requirement("cores", "Gt", (str(100 + at),)) for at in range(16))) for _ in range(32)]
    assert found.nodes(Constraints(terms=tuple(terms))) == frozenset(range(116, 200))
    assert len(read) == 200 + 32 * 16

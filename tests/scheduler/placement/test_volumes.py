"""On which nodes a pod's volumes can be used."""

from dataclasses import replace
from typing import Any

import pytest
from scheduler.builders import NOW, POLICY, device, job, node, outcome, world

from rowen.scheduler.decision import Decision, decide
from rowen.scheduler.history import History
from rowen.scheduler.placement.constraints import Constraints, Requirement, Term, VolumeLimit, constraints_of
from rowen.scheduler.placement.eligibility import exclusion
from rowen.scheduler.placement.volumes import NO_VOLUMES, Volume, VolumeClaim, Volumes
from rowen.scheduler.serve.whatif import changed, predict
from rowen.scheduler.snapshot import JobView, NodeView

ZONE = "topology.kubernetes.io/zone"
IN_A = (Term((Requirement(ZONE, "In", ("a",)),)),)
IN_B = (Term((Requirement(ZONE, "In", ("b",)),)),)


def bound(name: str, volume: str, namespace: str = "ns") -> VolumeClaim:
    return VolumeClaim(namespace, name, volume, bound=True)


def known(*parts: VolumeClaim | Volume) -> Volumes:
    claims = {(part.namespace, part.name): part for part in parts if isinstance(part, VolumeClaim)}
    return Volumes(claims, {part.name: part for part in parts if isinstance(part, Volume)})


def zone(name: str, value: str, **fields: Any) -> NodeView:
    return node(name, labels={ZONE: value}, **fields)


def told(limits: tuple[VolumeLimit, ...], value: str = "b") -> str:
    """What stands against a pod with these volumes on a node of that zone."""
    return exclusion(zone("n", value), Constraints(volumes=limits))


def test_a_bound_claim_asks_for_what_its_volume_asks_for() -> None:
    volumes = known(bound("data", "pvc-1"), Volume("pvc-1", IN_A))
    limits = volumes.limits("ns", ["data"])
    assert [limit.terms for limit in limits] == [IN_A]
    assert told(limits, "a") == ""
    assert told(limits) == (
        f"volume claim data (volume pvc-1) can only be used on nodes with {ZONE} In (a): the node has {ZONE}=b"
    )
    assert exclusion(node("n"), Constraints(volumes=limits)).endswith(f"{ZONE} In (a): the node has no label {ZONE}")


def test_one_of_a_volumes_terms_is_enough() -> None:
    volumes = known(bound("data", "v"), Volume("v", (*IN_A, *IN_B)))
    limits = volumes.limits("ns", ["data"])
    assert [told(limits, value) for value in ("a", "b")] == ["", ""]
    has_c = f"the node has {ZONE}=c"
    assert told(limits, "c") == (
        f"volume claim data (volume v) can only be used on nodes with {ZONE} In (a): {has_c}; {ZONE} In (b): {has_c}"
    )


def test_all_claims_have_to_be_met() -> None:
    volumes = known(bound("x", "v"), bound("y", "w"), Volume("v", IN_A), Volume("w", IN_B))
    limits = volumes.limits("ns", ["x", "y"])
    assert told(limits, "a").startswith("volume claim y (volume w) can only be used on nodes with")
    assert told(limits, "b").startswith("volume claim x (volume v) can only be used on nodes with")


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        (VolumeClaim("ns", "data"), None),
        (VolumeClaim("ns", "data", "free"), None),
        (VolumeClaim("ns", "data", "free", bound=True), None),
        (VolumeClaim("ns", "data", "held"), None),
        (VolumeClaim("ns", "data", "held", bound=True), "a"),
        (VolumeClaim("ns", "data", "none"), None),
        (VolumeClaim("other", "data", "held", bound=True), None),
        (VolumeClaim("ns", "other", "held", bound=True), None),
        (
            VolumeClaim("ns", "data", "none", bound=True),
            "(volume none) is bound to a volume of which nothing is known yet",
        ),
        (VolumeClaim("ns", "data", "theirs\n", deleting=True), "is being deleted"),
        (VolumeClaim("ns", "data", "held", lost=True), "(volume held) has lost its volume, which is gone"),
        (VolumeClaim("ns", "data", deleting=True), "is being deleted"),
        (VolumeClaim("ns", "data", "held", bound=True, deleting=True), "(volume held) is being deleted"),
        (VolumeClaim("ns", "data", "empty", bound=True), "(volume empty) can be used on no node: its term is empty"),
    ],
)
def test_what_a_claim_limits(claim: VolumeClaim, reason: str | None) -> None:
    volumes = known(claim, Volume("free"), Volume("held", IN_A), Volume("empty", ()))
    limits = volumes.limits("ns", ["data"])
    if reason is None:
        assert limits == ()
    elif reason == "a":
        assert [limit.terms for limit in limits] == [IN_A]
    else:
        assert told(limits, "a") == told(limits, "b") == f"volume claim data {reason}"


def test_what_no_node_can_give_is_told_first() -> None:
    gone = VolumeClaim("ns", "z", deleting=True)
    limits = known(bound("a", "v"), Volume("v", IN_A), gone).limits("ns", ["a", "z"])
    assert told(limits) == "volume claim z is being deleted"


def test_claims_that_ask_for_the_same_count_once_whatever_they_are_called() -> None:
    volumes = known(bound("x", "v"), bound("y", "w"), Volume("v", IN_A), Volume("w", IN_A))
    assert [limit.name for limit in volumes.limits("ns", ["x", "y"])] == ["volume claim x (volume v)"]
    assert volumes.limits("ns", ["x"]) == volumes.limits("ns", ["y"]) != volumes.limits("ns", [])


def test_a_pod_that_names_its_node_needs_its_volumes_there() -> None:
    constraints = replace(constraints_of({"spec": {"nodeName": "n"}}), volumes=(VolumeLimit(IN_A, "volume claim x"),))
    assert exclusion(zone("n", "a"), constraints) == ""
    assert exclusion(zone("n", "b"), constraints).startswith("volume claim x can only")


def test_the_filters_of_the_template_are_told_before_volumes() -> None:
    constraints = constraints_of({"spec": {"nodeSelector": {"disk": "ssd"}}})
    both = replace(constraints, volumes=(VolumeLimit(IN_A, "volume claim x"),))
    assert exclusion(zone("n", "b"), both) == "nodeSelector disk=ssd: the node has no label disk"


STORED = known(bound("data", "pvc-1"), Volume("pvc-1", IN_A))


def decided(*parts: NodeView | JobView, volumes: Volumes = STORED) -> Decision:
    kept = [part.within(volumes) if isinstance(part, JobView) else part for part in parts]
    return decide(world(*kept), History(), NOW, POLICY)


@pytest.mark.parametrize("count", [1, 2])
def test_a_job_goes_where_its_volume_is(count: int) -> None:
    def made(name: str, idle: float) -> NodeView:
        return node(name, *(device(name, f"d{at}", idle=idle) for at in range(count)), labels={ZONE: name})

    parts = made("a", 0.4), made("b", 0.9)
    free = outcome(decided(*parts, job("j", devices=count)), "j")
    held = outcome(decided(*parts, job("j", devices=count, claims=("data",))), "j")
    assert (free.placement and free.placement.node, held.placement and held.placement.node) == ("b", "a")


@pytest.mark.parametrize("count", [1, 2])
def test_the_refusal_names_claim_volume_and_nodes(count: int) -> None:
    there = node("b", *(device("b", f"d{at}") for at in range(count)), labels={ZONE: "b"})
    found = outcome(decided(there, job("j", devices=count, claims=("data",))), "j")
    place = "b/" + "+".join(f"d{at}" for at in range(count))
    assert found.message == (
        f"no candidate holds: {place}: volume claim data (volume pvc-1) can only be used on nodes with {ZONE} In (a): "
        f"the node has {ZONE}=b"
    )


def test_jobs_that_are_alike_are_refused_in_their_own_words() -> None:
    """The second is refused like the first, whose claim may be in another namespace."""
    mine = bound("mine", "pvc-2", "other")
    volumes = known(bound("data", "pvc-1"), mine, Volume("pvc-1", IN_A), Volume("pvc-2", IN_A))
    first, second = job("j", claims=("data",)), job("k", namespace="other", claims=("mine",))
    decision = decided(zone("b", "b"), first, second, volumes=volumes)
    for name, words in (("j", "volume claim data (volume pvc-1) can"), ("k", "volume claim mine (volume pvc-2) can")):
        found = outcome(decision, name)
        assert words in found.message
        assert words in found.candidates[0].refusal


def test_what_else_is_in_the_way_is_told_alike() -> None:
    volumes = known(bound("x", "v"), bound("y", "w"), Volume("v", IN_A), Volume("w", IN_A))
    parts = zone("a", "a", slots=0), zone("b", "b")
    decision = decided(*parts, job("j", claims=("x",)), job("k", claims=("y",)), volumes=volumes)
    for name, claim in (("j", "x"), ("k", "y")):
        first, second = outcome(decision, name).candidates
        assert first.refusal == "no free harvest slot (0 of 0 free on the node)"
        assert second.refusal.startswith(f"volume claim {claim} ")


def test_a_question_about_a_new_job_knows_the_volumes() -> None:
    snapshot = replace(world(zone("b", "b")), volumes=STORED)
    asked = job("j", claims=("data",))
    assert "volume claim data (volume pvc-1)" in predict(snapshot, History(), asked, NOW, POLICY).refusal
    added = changed(snapshot, [asked], (), ())
    assert "volume claim data (volume pvc-1)" in outcome(decide(added, History(), NOW, POLICY), "j").message
    unlimited = replace(snapshot, volumes=NO_VOLUMES)
    assert predict(unlimited, History(), asked, NOW, POLICY).choice.chosen is not None


def test_a_job_without_a_limit_is_the_same_job() -> None:
    view = job("j", claims=("other",))
    assert view.within(STORED) is view

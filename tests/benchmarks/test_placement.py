"""The optimum that decisions are compared with, and the clusters that they are made on."""

import random
from collections import Counter

import placement
import pytest
from reporting.bars import judged
from reporting.report import Missing
from scheduling import optimum, worlds

from rowen.crds.text.parts import packed, unpacked
from rowen.scheduler.decision import Action, decide
from rowen.scheduler.history import History
from rowen.scheduler.monitor.hearing import Hearing, Telling, Word
from rowen.scheduler.placement.eligibility import exclusion
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobView, NodeView
from rowen.scheduler.world.assembly import assemble

HISTORY, POLICY = History(), Policy()


def cluster(*idles: float) -> dict[str, NodeView]:
    """A node with a device for each idle fraction, and a slot each."""
    devices = [
        worlds.DeviceView("n", f"g{number}", "cuda", 80 * worlds.GIB, idle, online_memory=0)
        for number, idle in enumerate(idles)
    ]
    view = NodeView("n", slots=len(devices), reported=worlds.NOW, told=worlds.NOW, heard=worlds.NOW)
    return {"n": worlds.replace(view, devices=tuple(devices))}


def queued(name: str, **fields: object) -> JobView:
    return JobView(f"uid-{name}", "ns", name, "class", worlds.GIB, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("idles", "jobs", "best"),
    [
        ((0.9, 0.4), [queued("a"), queued("b")], 1.3),
        ((0.9, 0.4), [queued("a"), queued("b", sla=0.5)], 1.3),
        ((0.9, 0.4), [queued("a", sla=0.5), queued("b", sla=0.5)], 0.9),
        ((0.9, 0.4), [queued("a")], 0.9),
        ((0.9, 0.8, 0.1), [queued("a"), queued("b", devices=2)], 2 * 0.8 + 0.1),
        ((0.9, 0.8, 0.7), [queued("a"), queued("b", devices=2)], 0.9 + 2 * 0.7),
        ((0.9,), [queued("a", sla=0.95)], 0.0),
    ],
)
def test_the_optimum_worked_out_by_hand(idles, jobs, best):
    found = optimum.places(cluster(*idles), jobs, HISTORY, POLICY)
    assert optimum.most(found) == pytest.approx(best)


def test_no_decision_is_better_than_the_optimum():
    gaps = [optimum.gap(seed, 0.4, 0.0, HISTORY, POLICY) for seed in range(3)]
    assert all(-1e-6 <= gap.decided <= 0.05 for gap in gaps)
    assert all(gap.decided <= gap.queue + 1e-6 for gap in gaps)


def test_a_cluster_without_a_proven_optimum_is_told_as_such(monkeypatch):
    monkeypatch.setattr(optimum, "most", lambda places: None)
    assert optimum.gap(0, 0.4, 0.0, HISTORY, POLICY) is None
    figures = placement.gap_figures(0, quick=True)
    assert figures["optimum_unsolved"] == (60.0, "clusters")
    assert isinstance(figures["optimality_gap_max"][0], Missing)


def test_the_clusters_have_what_they_are_asked_for():
    source = random.Random(0)
    nodes = worlds.make_nodes(source, 20)
    assert [len(view.devices) for view in nodes.values()] == [8, 8, 4]
    jobs = worlds.make_jobs(source, 200, lockstep=0.2)
    assert 20 <= sum(job.devices > 1 for job in jobs) <= 60
    assert len({job.memory for job in worlds.unlike(jobs)}) == 200
    decision = decide(worlds.world(nodes, worlds.tenants(nodes.values()), jobs[:1]), HISTORY, worlds.NOW, POLICY)
    assert [found.action for found in decision.outcomes].count(Action.KEEP) == 20


def test_reports_anew_are_read_anew():
    nodes = worlds.make_nodes(random.Random(0), 16)
    first, second = nodes
    again = worlds.heard_again(nodes, [first])
    assert again[first] == nodes[first]
    assert again[first] is not nodes[first]
    assert again[second] is nodes[second]


def test_a_new_report_tells_of_other_idle_times():
    source = random.Random(0)
    first, second = known = worlds.facts(worlds.make_nodes(source, 16)).harvests
    again = worlds.reported_again(source, known, {first.node: worlds.NOW + 2.0})
    assert again[1] is second
    assert again[0].reported == worlds.NOW + 2.0
    assert [one.report for one in again[0].devices] == [one.report for one in first.devices]
    pairs = [(one.idle.fraction, two.idle.fraction) for one, two in zip(first.devices, again[0].devices, strict=True)]
    assert all(one != two and abs(one - two) <= 0.05 * one for one, two in pairs if one)


def reported(device):
    """Its memory over time, to as many digits as a report has."""
    return tuple(unpacked(packed(device.available, device.memory), device.memory)) if device.available else ()


def test_the_objects_of_a_cluster_make_the_same_cluster():
    nodes = worlds.make_nodes(random.Random(0), 16)
    known = worlds.facts(nodes)
    hearing = Hearing(dict.fromkeys(nodes, Word(0.0, worlds.NOW, worlds.NOW)),
                      dict.fromkeys(nodes, Telling(0.0, worlds.NOW)))  # fmt: skip
    made = assemble([], known.harvests, known.nodes, known.pods, known.services, hearing, {}).nodes
    expected = {
        name: worlds.replace(
            view,
            steady=worlds.NOW,
            devices=tuple(
                worlds.replace(device, seen_idle=device.idle, available=reported(device)) for device in view.devices
            ),
        )
        for name, view in nodes.items()
    }
    assert made == expected


def test_nobody_is_placed_on_a_full_cluster():
    nodes = {name: worlds.replace(view, slots=8) for name, view in worlds.make_nodes(random.Random(0), 16).items()}
    jobs = worlds.make_jobs(random.Random(0), 20)
    decision = placement.pass_over(worlds.world(nodes, worlds.tenants(nodes.values()), jobs))
    assert [found.action for found in decision.outcomes].count(Action.WAIT) == 20


def test_every_figure_is_there(monkeypatch):
    monkeypatch.setattr(placement, "SIZES", (8, 16, 24))
    monkeypatch.setattr(placement, "WAITING", 40)
    made = placement.run(0, quick=True)
    figures = made["figures"]
    assert made["bars"].keys() == placement.BARS.keys()
    assert {
        "single_decision_ms_p99",
        "assemble_ms_p99",
        "single_whole_ms_p50",
        "single_whole_ms_p99",
        "full_pass_s",
        "pass_full_s",
        "optimality_gap_max",
        "optimality_gap_waited_max",
        "pass_backed_off_s",
        "pass_constrained_s",
        "queue_gap_max",
        "joint_ms_lockstep_p99",
        "growth",
    } <= figures.keys()
    assert all(row["value"] is not None for row in figures.values())


@pytest.mark.parametrize("worse", placement.BARS)
def test_a_worse_figure_misses_its_bar(worse):
    figures = {name: {"value": bar * (1.01 if name == worse else 1.0)} for name, (bar, _) in placement.BARS.items()}
    assert {name for name, bar in judged(figures, placement.BARS).items() if not bar["kept"]} == {worse}


def test_jobs_keep_away_from_the_nodes_that_have_failed_them():
    source = random.Random(0)
    nodes, jobs = worlds.make_nodes(source, 80), worlds.make_jobs(source, 60)
    backoffs = worlds.backed_off(source, jobs[:40], nodes)
    counts = Counter(uid for uid, _ in backoffs)
    assert set(counts) == {job.uid for job in jobs[:40]}
    assert set(counts.values()) == {1, 2, 3}
    decision = placement.pass_over(worlds.world(nodes, jobs), History(backoffs=backoffs))
    placed = {(found.job.uid, found.placement.node) for found in decision.outcomes if found.placement}
    assert len(placed) > 40
    assert not placed & backoffs.keys()


def test_jobs_are_placed_where_their_templates_allow():
    source = random.Random(0)
    nodes = worlds.labelled(source, worlds.make_nodes(source, 400).values())
    jobs = [worlds.choosy(source, job) for job in worlds.make_jobs(source, 120)]
    assert len({job.constraints for job in jobs}) == 6
    assert {view.taints for view in nodes.values()} > {(), (worlds.TAINTS[0],)}
    placed = [found for found in placement.pass_over(worlds.world(nodes, jobs)).outcomes if found.placement]
    assert len(placed) > 60
    for found in placed:
        assert not exclusion(nodes[found.placement.node], found.job.constraints)
    tight = [found for found in placed if found.job.constraints.selector == (("zone", "z1"),)]
    assert tight
    assert all(nodes[found.placement.node].labels["zone"] == "z1" for found in tight)

"""Jobs lie among others as their templates ask."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler.builders import GIB, NOW, POLICY, device, job, node, outcome, placed, pod, run, world

from rowen.crds.job.offline_job import OfflineJobSpec
from rowen.scheduler.decision import Action, Decision
from rowen.scheduler.device import DeviceView
from rowen.scheduler.history import History
from rowen.scheduler.placement import selection, spreading
from rowen.scheduler.placement.census import build_fleet
from rowen.scheduler.placement.constraints import Requirement, constraints_of
from rowen.scheduler.placement.spread_rules import NOBODY, SpreadRule, labels_of, spread_of
from rowen.scheduler.placement.spreading import Spreading
from rowen.scheduler.serve.whatif import predict
from rowen.scheduler.snapshot import JobView, NodeView
from rowen.scheduler.world.facts import new_job

APP = {"app": "x"}
SELECT = {"labelSelector": {"matchLabels": APP}}
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def template(*spreads: dict[str, Any], labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    spec = {"topologySpreadConstraints": list(spreads), **spec}
    return {"metadata": {"labels": APP if labels is None else labels}, "spec": spec}


def spread(key: str = HOST, *, most: int = 1, when: str = "DoNotSchedule", **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "maxSkew": most, "whenUnsatisfiable": when, **SELECT, **more}


def apart(key: str = HOST, **more: Any) -> dict[str, Any]:
    term = {"topologyKey": key, **SELECT, **more}
    return {"podAntiAffinity": {REQUIRED: [term]}}


def both(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    terms = [term for one in (first, second) for term in one["podAntiAffinity"][REQUIRED]]
    return {"podAntiAffinity": {REQUIRED: terms}}


def like(name: str, asked: dict[str, Any], **fields: Any) -> JobView:
    read = {"labels": labels_of(asked), "spread": spread_of(asked), "constraints": constraints_of(asked)}
    return job(name, **{"created": float(ord(name[-1])), **read, **fields})


def host(name: str, idle: float, zone: str | None = None, **fields: Any) -> NodeView:
    labels = {HOST: name, **({ZONE: zone} if zone else {})}
    return node(name, device(name, idle=idle), **{"labels": labels, "slots": 4, **fields})


def where(decision: Decision, *names: str) -> str:
    found = [outcome(decision, name).placement for name in names]
    return "".join(place.node if place is not None else "-" for place in found)


HOSTS = [host("a", 0.9), host("b", 0.5), host("c", 0.1)]
"""Two on `a` have 0.45 each, so that without any rule it takes the second one before `c` does, if not before `b`."""


def test_without_a_rule_jobs_go_where_they_harvest_most() -> None:
    jobs = [like(f"j{number}", template()) for number in range(3)]
    assert where(run(*HOSTS[:1], HOSTS[2], *jobs), "j0", "j1") == "ac"


def test_hosts_are_filled_evenly() -> None:
    jobs = [like(f"j{number}", template(spread())) for number in range(5)]
    assert sorted(where(run(*HOSTS, *jobs), *(f"j{number}" for number in range(3)))) == ["a", "b", "c"]
    again = run(*HOSTS, placed(jobs[0], "a"), placed(jobs[1], "a"), jobs[2], jobs[3])
    assert sorted(where(again, "j2", "j3")) == ["b", "c"]


def test_where_one_more_would_be_too_many_it_is_told() -> None:
    """`b` is idle for too little; a spread of two over the rest is one more than may be."""
    one, two = like("j1", template(spread(), labels=APP)), like("j2", template(spread()), sla=0.3)
    found = outcome(run(host("a", 0.9), host("b", 0.1), placed(one, "a"), two), "j2")
    assert found.action is Action.WAIT
    told = {candidate.place: candidate.refusal for candidate in found.candidates}
    assert told["a/cpu0"] == f"spread over {HOST} with maxSkew 1: 1 like it there, b has 0"
    assert told["b/cpu0"].startswith("idle 0.10 < SLA 0.30")
    wider = like("j2", template(spread(most=2)), sla=0.3)
    assert where(run(host("a", 0.9), host("b", 0.1), placed(one, "a"), wider), "j2") == "a"


def test_zones_count_all_their_nodes() -> None:
    zones = [host("a", 0.9, "east"), host("b", 0.8, "east"), host("c", 0.2, "west")]
    rules = template(spread(ZONE))
    jobs = [like(f"j{number}", rules) for number in range(3)]
    assert where(run(*zones, placed(jobs[0], "a"), jobs[1]), "j1") == "c"
    assert where(run(*zones, placed(jobs[0], "a"), placed(jobs[1], "c"), jobs[2]), "j2") == "b"


def test_a_node_without_the_label_takes_none() -> None:
    found = run(host("a", 0.9), host("b", 0.1, "west"), like("j1", template(spread(ZONE))))
    assert where(found, "j1") == "b"
    alone = outcome(run(host("a", 0.9), like("j1", template(spread(ZONE)))), "j1")
    assert f"spread over {ZONE}: the node has no such label" in alone.message


def test_a_rule_that_means_nobody_only_asks_for_the_label() -> None:
    """As kube-scheduler has it of a selector that is left out."""
    rules = template(spread(ZONE, labelSelector=None))
    nodes = [host("a", 0.9), host("b", 0.9, "west", slots=8), host("c", 0.0, "east")]
    found = run(*nodes, *(placed(like(f"j{at}", rules), "b") for at in range(3)), like("j9", rules))
    assert where(found, "j9") == "b"


def test_an_empty_value_of_a_label_is_a_zone_as_any_other() -> None:
    rules, nameless = template(spread(ZONE)), node("a", device("a", idle=0.9), slots=4, labels={HOST: "a", ZONE: ""})
    assert where(run(nameless, like("j1", rules)), "j1") == "a"
    west = host("b", 0.1, "west")
    assert where(run(nameless, west, placed(like("j1", rules), "a"), like("j2", rules)), "j2") == "b"
    aloof = placed(like("j1", template(affinity=apart(ZONE))), "a")
    assert where(run(nameless, west, aloof, like("j2", template())), "j2") == "b"


def test_nodes_without_a_label_are_not_one_place() -> None:
    aloof = placed(like("j1", template(affinity=apart(ZONE))), "c")
    nameless = node("a", device("a", idle=0.9), slots=4, labels={HOST: "a", ZONE: ""})
    assert where(run(nameless, host("c", 0.9), aloof, like("j2", template())), "j2") == "a"


def test_a_node_that_lacks_the_label_of_another_rule_is_no_zone() -> None:
    """As kube-scheduler has it: else the job would wait for a zone in which no node will do."""
    rules = template(spread(ZONE), spread("rack", most=9))
    east = node("a", device("a", idle=0.9), slots=4, labels={HOST: "a", ZONE: "east", "rack": "r"})
    found = run(east, host("b", 0.9, "west"), placed(like("j1", rules), "a"), like("j2", rules))
    assert where(found, "j2") == "a"
    wish = template(spread(ZONE), spread("rack", when="ScheduleAnyway"))
    assert where(run(east, host("b", 0.9, "west"), placed(like("j1", wish), "a"), like("j2", wish)), "j2") == "b"


def test_a_zone_where_nothing_can_be_placed_is_none() -> None:
    """A silent node does not hold its likes back, but the jobs that it has still count for its zone."""
    rules = template(spread(ZONE))
    one, two = like("j1", rules), like("j2", rules)
    silent = host("c", 0.9, "west", schedulable=False)
    assert where(run(host("a", 0.9, "east"), silent, placed(one, "a"), two), "j2") == "a"
    both = [host("b", 0.1, "east"), host("d", 0.9, "west")]
    assert where(run(*both, silent, placed(one, "c"), two), "j2") == "b"


@pytest.mark.parametrize(
    "west",
    [
        # No engine is attached; none of its devices is harvested; too small; the service leaves too little.
        [device("c", idle=0.9, attached=False)],
        [device("c", idle=0.9, refusal="harvest is disabled")],
        [device("c", idle=0.9, memory=GIB)],
        [device("c", idle=0.9, online_memory=7 * GIB)],
        [],
    ],
    ids=["unattached", "disabled", "small", "used", "none"],
)
def test_a_zone_that_can_never_hold_the_job_is_none(west: list[DeviceView]) -> None:
    """Else it would keep each other zone at `maxSkew` jobs for good, since it stays at none itself."""
    rules = template(spread(ZONE))
    bare = NodeView("c", slots=4, reported=NOW, told=NOW, heard=NOW, devices=tuple(west), labels={HOST: "c", ZONE: "w"})
    two = like("j2", rules, memory=2 * GIB)
    assert where(run(host("a", 0.9, "east"), bare, placed(like("j1", rules), "a"), two), "j2") == "a"


def test_a_zone_with_fewer_devices_than_the_job_wants_is_none() -> None:
    rules = template(spread(ZONE))
    pair = node("a", device("a", "g0"), device("a", "g1"), slots=4, labels={HOST: "a", ZONE: "east"})
    one = placed(like("j1", rules, devices=2), "a", "g0", "g1")
    assert where(run(pair, host("c", 0.9, "west"), one, like("j2", rules, devices=2)), "j2") == "a"
    # One that is full for now is one.
    full = host("c", 0.9, "west", slots=1)
    held = placed(like("other", template(labels={"app": "other"})), "c")
    assert outcome(run(pair, full, one, held, like("j3", rules)), "j3").action is Action.WAIT


@pytest.mark.parametrize(("slots", "devices", "place"), [(0, 1, "a"), (1, 2, "a"), (2, 2, "-"), (1, 1, "-")])
def test_a_zone_with_fewer_slots_than_the_job_wants_is_none(slots: int, devices: int, place: str) -> None:
    """`c` is held by a stranger's pod in each case: what it could hold if it were empty counts."""
    rules, own = template(spread(ZONE)), ("g0", "g1")[:devices]
    east, west = (
        node(name, device(name, "g0"), device(name, "g1"), slots=most, labels={HOST: name, ZONE: name})
        for name, most in (("a", 9), ("c", slots))
    )
    stranger = pod(job("x", devices=max(1, slots)), "c", *own)
    one, two = placed(like("j1", rules, devices=devices), "a", *own), like("j2", rules, devices=devices)
    assert where(run(east, west, stranger, one, two), "j2") == place


@pytest.mark.parametrize(("names", "place"), [("ab", "w"), ("ba", "e")])
def test_jobs_of_one_template_have_the_zones_that_could_hold_each(names: str, place: str) -> None:
    """West can hold 1 GiB, and never the 2 of `a`: that is for east, and `b` for west. The first one only waits."""
    other = {"labelSelector": {"matchLabels": {"app": "z"}}}
    rules, memory = template(spread(ZONE), affinity=apart(**other)), {"a": 2 * GIB, "b": GIB // 16}
    west = node("w", device("w", idle=0.1, memory=GIB, online_memory=0), labels={HOST: "w", ZONE: "west"})
    devices = device("e", "g0", idle=0.9), device("e", "g1", idle=0.9)
    east = node("e", *devices, labels={HOST: "e", ZONE: "east"})
    one, two = (like(name, rules, memory=memory[name], created=float(at)) for at, name in enumerate(names))
    decision = run(east, west, placed(like("j1", rules), "e", "g0"), replace(one, sla=0.95), two)
    assert where(decision, *names) == f"-{place}"


def test_too_few_zones_count_as_empty_ones() -> None:
    rules = template(spread(ZONE, minDomains=2))
    found = outcome(run(host("a", 0.9, "east"), placed(like("j1", rules), "a"), like("j2", rules)), "j2")
    assert found.action is Action.WAIT
    assert "1 like it there, minDomains is 2" in found.message
    # The first one is no more than one above none.
    assert where(run(host("a", 0.9, "east"), like("j1", rules)), "j1") == "a"


def test_a_preference_gives_way_where_no_place_holds_it() -> None:
    rules = template(spread(when="ScheduleAnyway"))
    jobs = [like(f"j{number}", rules) for number in range(3)]
    assert where(run(*HOSTS, placed(jobs[0], "a"), placed(jobs[1], "b"), jobs[2]), "j2") == "c"
    best = [host("a", 0.9), host("b", 0.0)]
    assert where(run(*best, placed(jobs[0], "a"), jobs[1]), "j1") == "a"


def wide(name: str, idle: float) -> NodeView:
    """A host with two devices, so that a second job costs the first one nothing."""
    return node(name, device(name, "g0", idle=idle), device(name, "g1", idle=idle), labels={HOST: name})


def test_a_preference_is_kept_though_another_place_would_harvest_more() -> None:
    held = placed(like("j1", template()), "a", "g0")
    hosts = [wide("a", 0.9), host("b", 0.1)]
    assert where(run(*hosts, held, like("j2", template())), "j2") == "a"
    assert where(run(*hosts, held, like("j2", template(spread(when="ScheduleAnyway")))), "j2") == "b"


@pytest.mark.parametrize(("west", "place"), [(0.0, "b"), (0.1, "c")])
def test_a_preference_counts_beside_a_rule_and_gives_way_where_nothing_is_left(west: float, place: str) -> None:
    """It must not be on `a`, and would like the other zone."""
    rules = template(spread(ZONE, when="ScheduleAnyway"), affinity=apart())
    zones = [host("a", 0.9, "east"), host("b", 0.5, "east"), host("c", west, "west")]
    assert where(run(*zones, placed(like("j1", rules), "a"), like("j2", rules)), "j2") == place


def test_a_job_is_not_refused_for_where_the_likes_of_another_lie() -> None:
    """Each keeps away from its own like: `x` from the one place with idle time, `y` from the other."""
    apps = {app: {"labelSelector": {"matchLabels": {"app": app}}} for app in "xy"}
    jobs = {app: template(affinity=apart(**apps[app]), labels={"app": app}) for app in "xy"}
    held = [placed(like(f"{app}1", template(labels={"app": app})), at) for app, at in (("x", "a"), ("y", "b"))]
    found = run(host("a", 0.9), host("b", 0.0), *held, like("x2", jobs["x"]), like("y3", jobs["y"]))
    assert where(found, "x2", "y3") == "-a"


RULES = template(spread())


@pytest.mark.parametrize(
    ("other", "counts"),
    [
        (like("j1", RULES), True),
        (like("j1", RULES, namespace="other"), False),
        (like("j1", template(spread(), labels={"app": "y"})), False),
        (job("j1"), False),
        (like("j1", RULES, finished=True), False),
        (like("j1", RULES, deleting=True), False),
    ],
)
def test_who_counts(other: JobView, counts: bool) -> None:
    """With one of its like on `a` it would have to go to `b`, where there is nothing to harvest."""
    two = [host("a", 0.9), host("b", 0.0)]
    assert where(run(*two, placed(other, "a"), like("j6", RULES)), "j6") == ("-" if counts else "a")


def test_who_must_not_be_with_its_like_is_not() -> None:
    rules = template(affinity=apart())
    jobs = [like(f"j{number}", rules) for number in range(3)]
    two = [host("a", 0.9), host("b", 0.1)]
    decision = run(*two, *jobs)
    assert where(decision, "j0", "j1", "j2") == "ab-"
    assert f"podAntiAffinity over {HOST}: such a job is there" in outcome(decision, "j2").message


def test_who_keeps_others_away_is_left_alone() -> None:
    """The newcomer has no rule of its own."""
    aloof, plain = like("j1", template(affinity=apart(), labels={"app": "y"})), like("j2", template())
    two = [host("a", 0.9), host("b", 0.1)]
    assert where(run(*two, placed(aloof, "a"), plain), "j2") == "b"
    found = outcome(run(host("a", 0.9), placed(aloof, "a"), plain), "j2")
    assert f"podAntiAffinity over {HOST} of ns/j1: it is there already" in found.message
    assert where(run(host("a", 0.9), placed(aloof, "a"), like("j2", template(), namespace="other")), "j2") == "a"


@pytest.mark.parametrize("selector", [{}, {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["y"]}]}])
def test_a_job_without_labels_is_kept_apart_by_a_selector_that_means_it(selector: dict[str, Any]) -> None:
    """An empty selector means every pod; so does `NotIn` one without the label."""
    two = [wide("a", 0.9), host("b", 0.1)]
    aloof = like("j1", template(affinity=apart(labelSelector=selector), labels={"app": "y"}))
    assert where(run(*two, placed(aloof, "a", "g0"), job("j2")), "j2") == "b"
    assert where(run(*two, placed(job("j2"), "a", "g0"), aloof), "j1") == "b"


def test_who_keeps_others_away_keeps_its_like_away_and_nobody_else() -> None:
    other = {"labelSelector": {"matchLabels": {"app": "y"}}}
    two = [wide("a", 0.9), host("b", 0.1)]
    aloof = placed(like("j1", template(affinity=apart(**other))), "a", "g0")
    assert where(run(*two, aloof, like("j2", template())), "j2") == "a"
    assert where(run(*two, aloof, like("j2", template(labels={"app": "y"}))), "j2") == "b"
    # A rule of its own about its place is none about the places of others.
    rules = template(spread(labelSelector={"matchLabels": {"app": "z"}}), affinity=apart(**other))
    both = placed(like("j1", rules), "a", "g0")
    assert where(run(*two, both, like("j2", template(labels={"app": "z"}))), "j2") == "a"


def test_a_job_does_not_stand_in_its_own_way() -> None:
    """It falls short and looks for another place: where it is does not count."""
    rules = template(spread(ZONE))
    zones = [host("a", 0.9, "east"), host("b", 0.8, "west")]
    held = placed(like("j1", rules), "a")
    fleet, _ = build_fleet(world(*zones, held), History(), (), NOW, POLICY)
    assert Spreading(fleet, [(held, "a")]).barred(held, softly=False) == {}
    other = like("j2", rules)
    assert set(Spreading(fleet, [(held, "a")]).barred(other, softly=False)) == {"a"}


@pytest.mark.parametrize(
    ("asked", "rules"),
    [
        (None, ()),
        (template(spread()), (SpreadRule(HOST, (Requirement("app", "In", ("x",)),)),)),
        (
            template(spread(ZONE, most=3, when="ScheduleAnyway", minDomains=2)),
            (SpreadRule(ZONE, (Requirement("app", "In", ("x",)),), 3, 2, must=False),),
        ),
        (
            template(spread(matchLabelKeys=["app", "none"], labelSelector={})),
            (SpreadRule(HOST, (Requirement("app", "In", ("x",)),)),),
        ),
        (template(spread(labelSelector=None)), (SpreadRule(HOST, NOBODY),)),
        (template(affinity=apart(labelSelector=None)), ()),
        (template(spread(most=0)), ()),
        (template(spread("k" * 318), affinity=apart("k" * 318)), ()),
        (template(spread("k" * 317)), (SpreadRule("k" * 317, (Requirement("app", "In", ("x",)),)),)),
        (template(spread(labelSelector={"matchLabels": {str(number): "" for number in range(65)}})), ()),
        (template(*[spread()] * 9), (SpreadRule(HOST, (Requirement("app", "In", ("x",)),)),) * 8),
        (template({"topologyKey": 1}, spread()), (SpreadRule(HOST, (Requirement("app", "In", ("x",)),)),)),
        (
            template(spread(labelSelector={"matchExpressions": [{"key": "k", "operator": "Exists"}]})),
            (SpreadRule(HOST, (Requirement("k", "Exists"),)),),
        ),
        (template(affinity=apart()), (SpreadRule(HOST, (Requirement("app", "In", ("x",)),), apart=True),)),
        (template(affinity=apart(namespaces=["other"])), ()),
        (
            template(spread(most=0), spread()),
            (SpreadRule(HOST, (Requirement("app", "In", ("x",)),)),),
        ),
        (
            template(affinity=both(apart(namespaces=["other"]), apart())),
            (SpreadRule(HOST, (Requirement("app", "In", ("x",)),), apart=True),),
        ),
        (template(affinity=apart(namespaceSelector={})), ()),
        (template(affinity={"podAntiAffinity": "none"}), ()),
        (template(affinity=apart(mismatchLabelKeys=["a"])), ()),
        ({"spec": {"topologySpreadConstraints": "none"}}, ()),
        ({"spec": "none", "metadata": []}, ()),
    ],
)
def test_what_is_read_of_a_template(asked: Any, rules: tuple[SpreadRule, ...]) -> None:
    assert spread_of(asked) == rules


def selector(*, labels: int = 0, expressions: int = 0, values: int = 0) -> dict[str, Any]:
    found = [{"key": f"k{at}", "operator": "Exists"} for at in range(expressions)]
    found += [{"key": "k", "operator": "In", "values": [str(at) for at in range(values)]}] if values else []
    return {"matchLabels": {f"k{at}": "v" for at in range(labels)}, "matchExpressions": found}


@pytest.mark.parametrize(("part", "most"), [("labels", 64), ("expressions", 16), ("values", 256)])
def test_a_selector_is_read_up_to_a_length_and_asks_for_nothing_beyond(part: str, most: int) -> None:
    read, beyond = (spread_of(template(spread(labelSelector=selector(**{part: most + more})))) for more in (0, 1))
    assert len(read) == 1
    assert beyond == ()


def test_the_first_eight_rules_of_a_template_count_and_the_first_64_of_its_labels() -> None:
    rules = spread_of(template(*(spread(f"k{at}") for at in range(9))))
    assert [rule.key for rule in rules] == [f"k{at}" for at in range(8)]
    labels = labels_of(template(labels={f"k{at:02}": "v" for at in range(65)}))
    assert [key for key, _ in labels] == [f"k{at:02}" for at in range(64)]


def test_a_job_is_read_with_its_labels_and_rules() -> None:
    spec = OfflineJobSpec.from_wire({"template": template(spread(), containers=[{"name": "m"}])})
    view = new_job(spec, "u", "ns", "j", NOW)
    assert view.labels == (("app", "x"),)
    assert view.spread == spread_of(template(spread()))


def test_a_question_keeps_to_the_spread() -> None:
    first, hard = placed(like("j1", RULES), "a"), like("j2", RULES)
    soft = like("j3", template(spread(when="ScheduleAnyway")))
    two = world(host("a", 0.9), host("b", 0.2), first)
    for view in (hard, soft):
        chosen = predict(two, History(), view, NOW, POLICY).choice.chosen
        assert chosen is not None
        assert chosen.node == "b"
    alone = world(host("a", 0.9), host("b", 0.0), first)
    assert predict(alone, History(), hard, NOW, POLICY).choice.chosen is None
    chosen = predict(alone, History(), soft, NOW, POLICY).choice.chosen
    assert chosen is not None
    assert chosen.node == "a"


@given(
    zones=st.lists(st.sampled_from("xyz"), min_size=1, max_size=6),
    before=st.lists(st.integers(0, 5), max_size=4),
    count=st.integers(1, 6),
    most=st.integers(1, 2),
)
@settings(deadline=None, max_examples=60)
def test_no_pass_makes_a_spread_wider_than_it_may_be(
    zones: list[str], before: list[int], count: int, most: int
) -> None:
    """By a count of its own: each job that is placed kept the skew when it was, so that the last one did."""
    nodes = [host(f"n{number}", 0.2 + number / 10, zone) for number, zone in enumerate(zones)]
    rules = template(spread(ZONE, most=most))
    here = [placed(like(f"h{k}", rules), f"n{at % len(zones)}") for k, at in enumerate(before)]
    jobs = [like(f"j{number}", rules) for number in range(count)]
    decision = run(*nodes, *here, *jobs)
    counts = Counter(dict.fromkeys(zones, 0))
    counts.update(zones[at % len(zones)] for at in before)
    for view in jobs:
        place = outcome(decision, view.name).placement
        if place is not None:
            zone = zones[int(place.node[1:])]
            assert counts[zone] + 1 - min(counts.values()) <= most
            counts[zone] += 1


def other_app(app: str, away: dict[str, Any]) -> dict[str, Any]:
    return template(affinity=apart(HOST, labelSelector=away), labels={"app": app})


@given(
    apps=st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from("xyz"), st.booleans()), min_size=2, max_size=8),
    hosts=st.integers(1, 4),
    held=st.integers(0, 3),
)
@settings(deadline=None, max_examples=60)
def test_nobody_is_placed_beside_whom_either_keeps_away(
    apps: list[tuple[str, str, bool]], hosts: int, held: int
) -> None:
    """By a look at each pair; who waits has nowhere to go. Selectors that name a label's value, and that do not."""
    nodes = [host(f"n{number}", 0.9, slots=9) for number in range(hosts)]

    def away(app: str, by_value: bool) -> dict[str, Any]:
        among = {"key": "app", "operator": "NotIn", "values": sorted({*"xyz"} - {app})}
        return {"matchLabels": {"app": app}} if by_value else {"matchExpressions": [among]}

    jobs = [like(f"j{at}", other_app(own, away(app, by_value))) for at, (own, app, by_value) in enumerate(apps)]
    jobs = [placed(view, f"n{at}") if at < min(held, hosts) else view for at, view in enumerate(jobs)]
    decision = run(*nodes, *jobs)
    at = {view.name: outcome(decision, view.name).placement for view in jobs}

    def clash(one: int, two: int) -> bool:
        return apps[one][1] == apps[two][0] or apps[two][1] == apps[one][0]

    for one in range(len(jobs)):
        place = at[f"j{one}"]
        others = [(two, found) for two in range(len(jobs)) if two != one and (found := at[f"j{two}"]) is not None]
        if place is None:
            taken = {found.node for two, found in others if clash(one, two)}
            assert len(taken) == hosts
        elif one >= held:
            assert not [two for two, found in others if found.node == place.node and clash(one, two)]


def test_a_pass_looks_at_few_of_the_rules_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each job has a label of its own, spreads its likes and keeps away from them: so do a thousand others."""
    looked: list[int] = []
    real = selection.selects
    for module in (selection, spreading):
        monkeypatch.setattr(module, "selects", lambda *given: (looked.append(1), real(*given))[1])
    jobs = []
    for number in range(100):
        own = {"labelSelector": {"matchLabels": {"job": str(number)}}}
        rules = template(spread(ZONE, **own), affinity=apart(**own), labels={"job": str(number)})
        jobs.append(like(f"j{number}", rules, memory=1))
    nodes = [host(f"n{number}", 0.9, "east", slots=20) for number in range(20)]
    decision = run(*nodes, *jobs)
    assert sum(outcome(decision, view.name).placement is not None for view in jobs) == 100
    assert len(looked) < 20 * len(jobs)

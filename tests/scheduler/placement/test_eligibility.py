"""On which nodes a pod can run, by the rules of kube-scheduler."""

from typing import Any

import pytest
from scheduler.builders import node

from rowen.scheduler.placement.constraints import Constraints, Taint, Term, Toleration, constraints_of
from rowen.scheduler.placement.eligibility import exclusion
from rowen.scheduler.world.facts import job_view

DEDICATED = {"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"}


def excluded(spec: dict[str, Any], *taints: Taint, **labels: str) -> str:
    """What stands against a pod of that spec on the node `n`."""
    return exclusion(node("n", labels=labels, taints=taints), constraints_of({"spec": spec}))


def tolerating(*tolerations: Any) -> dict[str, Any]:
    return {"tolerations": list(tolerations)}


def affinity(*terms: Any) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def expressions(*found: tuple[str, str, list[str]]) -> list[dict[str, Any]]:
    return [{"key": key, "operator": operator, "values": values} for key, operator, values in found]


@pytest.mark.parametrize(
    ("taint", "reason"),
    [
        (Taint("dedicated", "db", "NoSchedule"), "taint dedicated=db:NoSchedule is not tolerated"),
        (Taint("dedicated", "db", "NoExecute"), "taint dedicated=db:NoExecute is not tolerated"),
        (Taint("dedicated", "", "NoSchedule"), "taint dedicated:NoSchedule is not tolerated"),
        (Taint("dedicated", "db", "PreferNoSchedule"), ""),
    ],
)
def test_a_taint_keeps_pods_away(taint: Taint, reason: str) -> None:
    assert excluded({}, taint) == reason


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (DEDICATED, True),
        ({**DEDICATED, "operator": None}, True),
        ({**DEDICATED, "operator": ""}, True),
        ({**DEDICATED, "effect": ""}, True),
        ({"key": "dedicated", "value": "db"}, True),
        ({"key": "dedicated", "operator": "Exists"}, True),
        ({"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
        ({**DEDICATED, "tolerationSeconds": 5}, True),
        ({**DEDICATED, "value": "web"}, False),
        ({**DEDICATED, "value": "web", "operator": None}, False),
        ({**DEDICATED, "value": None}, False),
        ({**DEDICATED, "key": "other"}, False),
        ({**DEDICATED, "effect": "NoExecute"}, False),
        ({"key": "dedicated"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_what_a_toleration_tolerates(toleration: dict[str, Any], tolerated: bool) -> None:
    found = excluded(tolerating(toleration), Taint("dedicated", "db", "NoSchedule"))
    assert found == ("" if tolerated else "taint dedicated=db:NoSchedule is not tolerated")


def test_every_taint_has_to_be_tolerated_by_some_toleration() -> None:
    first, second = Taint("a", "", "NoSchedule"), Taint("b", "", "NoExecute")
    a, b = {"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}
    assert excluded(tolerating(a), first, second) == "taint b:NoExecute is not tolerated"
    assert excluded(tolerating(b), first, second) == "taint a:NoSchedule is not tolerated"
    assert excluded(tolerating(b, a), first, second) == ""


def test_a_toleration_without_value_fits_a_taint_without_value() -> None:
    assert excluded(tolerating({"key": "dedicated"}), Taint("dedicated", "", "NoSchedule")) == ""


@pytest.mark.parametrize(
    ("selector", "reason"),
    [
        ({"zone": "a"}, ""),
        ({"zone": "a", "disk": "ssd"}, ""),
        ({"zone": "b"}, "nodeSelector zone=b: the node has zone=a"),
        ({"rack": "1"}, "nodeSelector rack=1: the node has no label rack"),
        ({"rack": ""}, "nodeSelector rack=: the node has no label rack"),
        ({"zone": "a", "disk": "hdd"}, "nodeSelector disk=hdd: the node has disk=ssd"),
        ({"zone": "b", "disk": "ssd"}, "nodeSelector zone=b: the node has zone=a"),
    ],
)
def test_a_node_selector_asks_for_all_its_labels(selector: dict[str, str], reason: str) -> None:
    assert excluded({"nodeSelector": selector}, zone="a", disk="ssd") == reason


@pytest.mark.parametrize(
    ("operator", "values", "label", "holds"),
    [
        ("In", ["a", "b"], "b", True),
        ("In", ["a", "b"], "c", False),
        ("In", ["a"], None, False),
        ("NotIn", ["a", "b"], "c", True),
        ("NotIn", ["a", "b"], "b", False),
        ("NotIn", ["a"], None, True),
        ("Exists", [], "", True),
        ("Exists", [], None, False),
        ("DoesNotExist", [], None, True),
        ("DoesNotExist", [], "", False),
        ("Gt", ["4"], "5", True),
        ("Gt", ["4"], "4", False),
        ("Gt", ["4"], "10", True),
        ("Gt", ["-1"], "0", True),
        ("Gt", ["4"], None, False),
        ("Gt", ["4"], "many", False),
        ("Gt", ["few"], "5", False),
        ("Gt", ["4"], "5.5", False),
        ("Gt", ["4"], " 5", False),
        ("Gt", ["4"], "5_0", False),
        ("Gt", ["4"], "+5", True),
        ("Gt", ["4"], "9223372036854775807", True),
        ("Gt", ["4"], "9223372036854775808", False),
        ("Gt", ["4"], "9" * 5000, False),
        ("Lt", ["4"], "3", True),
        ("Lt", ["4"], "4", False),
        ("Lt", ["4"], "-9223372036854775808", True),
        ("Lt", ["4"], "-9223372036854775809", False),
        ("Lt", ["4"], None, False),
    ],
)
def test_operators_of_a_term(operator: str, values: list[str], label: str | None, holds: bool) -> None:
    labels = {} if label is None else {"key": label}
    spec = affinity({"matchExpressions": expressions(("key", operator, values))})
    assert (excluded(spec, **labels) == "") == holds


@pytest.mark.parametrize(
    ("terms", "reason"),
    [
        ([{"matchExpressions": expressions(("zone", "In", ["a"]))}], ""),
        (
            [{"matchExpressions": expressions(("zone", "In", ["b", "c"]))}],
            "node affinity zone In (b, c): the node has zone=a",
        ),
        (
            [{"matchExpressions": expressions(("zone", "In", ["a"]), ("disk", "Exists", []))}],
            "node affinity disk Exists: the node has no label disk",
        ),
        (
            [
                {"matchExpressions": expressions(("zone", "NotIn", ["a"]))},
                {"matchFields": expressions(("metadata.name", "In", ["n"]))},
            ],
            "",
        ),
        (
            [
                {"matchExpressions": expressions(("zone", "In", ["b"]))},
                {"matchExpressions": expressions(("disk", "Exists", []))},
            ],
            "node affinity zone In (b): the node has zone=a; disk Exists: the node has no label disk",
        ),
        (
            [{"matchFields": expressions(("metadata.name", "In", ["m"]))}],
            "node affinity metadata.name In (m): the node is n",
        ),
        (
            [{"matchFields": expressions(("metadata.name", "NotIn", ["n"]))}],
            "node affinity metadata.name NotIn (n): the node is n",
        ),
        (
            [
                {
                    "matchExpressions": expressions(("zone", "In", ["a"])),
                    "matchFields": expressions(("metadata.name", "In", ["m"])),
                }
            ],
            "node affinity metadata.name In (m): the node is n",
        ),
        ([{}], "node affinity: an empty term matches no node"),
        ([{"matchExpressions": [], "matchFields": None}], "node affinity: an empty term matches no node"),
        ([{}, {"matchExpressions": expressions(("zone", "In", ["a"]))}], ""),
        (
            [{}, {"matchExpressions": expressions(("zone", "In", ["b"]))}],
            "node affinity zone In (b): the node has zone=a",
        ),
    ],
)
def test_terms_are_alternatives_and_their_requirements_hold_together(terms: list[Any], reason: str) -> None:
    assert excluded(affinity(*terms), zone="a") == reason


@pytest.mark.parametrize(
    ("spec", "taint", "reason"),
    [
        ({"nodeName": "n"}, None, ""),
        ({"nodeName": "m"}, None, "nodeName m: the node is n"),
        ({"nodeName": "n"}, Taint("a", "", "NoSchedule"), ""),
        ({"nodeName": "n"}, Taint("a", "", "NoExecute"), "taint a:NoExecute is not tolerated"),
        ({"nodeName": "n", "nodeSelector": {"zone": "a"}}, None, "nodeSelector zone=a: the node has no label zone"),
    ],
)
def test_a_pod_that_names_its_node_passes_kube_scheduler_by(
    spec: dict[str, Any], taint: Taint | None, reason: str
) -> None:
    assert excluded(spec, *([taint] if taint else [])) == reason


def test_the_first_filter_of_kube_scheduler_is_told() -> None:
    spec = {"nodeName": "m", "nodeSelector": {"zone": "b"}, **affinity({})}
    taint = Taint("a", "", "NoExecute")
    assert excluded(spec, taint) == "nodeName m: the node is n"
    del spec["nodeName"]
    assert excluded(spec, taint) == "taint a:NoExecute is not tolerated"
    assert excluded(spec) == "nodeSelector zone=b: the node has no label zone"


def test_a_reason_is_short_whatever_the_template_holds() -> None:
    assert excluded({"nodeSelector": {"zone": "x" * 10000}}, zone="a") == f"nodeSelector zone={'x' * 493}…"
    exact = excluded({"nodeSelector": {"zone": "x" * 473}}, zone="a")
    assert exact == f"nodeSelector zone={'x' * 473}: the node has zone=a"
    assert len(exact) == 512
    assert len(excluded({"nodeSelector": {"zone": "x" * 474}}, zone="a")) == 512


@pytest.mark.parametrize(
    "template",
    [
        None,
        {},
        {"spec": None},
        {"spec": "text"},
        {"spec": {}},
        {"spec": {"nodeSelector": None, "affinity": None, "tolerations": None, "nodeName": None}},
        {"spec": {"nodeSelector": ["zone"], "affinity": ["zone"], "nodeName": 7}},
        {"spec": {"nodeSelector": {"zone": 7, "rack": None}}},
        {"spec": {"affinity": {"nodeAffinity": []}}},
        {"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": "zone"}}}},
        {"spec": affinity()},
        {"spec": {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}}},
        {"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}}},
    ],
)
def test_a_template_without_constraints_that_are_understood_has_none(template: Any) -> None:
    assert constraints_of(template) == Constraints()


@pytest.mark.parametrize(
    "entry",
    [
        "zone",
        {"matchExpressions": "zone"},
        {"matchExpressions": ["zone"]},
        {"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]},
        {"matchExpressions": [{"key": "zone", "operator": ["In"], "values": ["a"]}]},
        {"matchExpressions": [{"key": 7, "operator": "Exists"}]},
        {"matchExpressions": [{"operator": "Exists"}]},
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": [7]}]},
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": "a"}]},
        {"matchExpressions": [{"key": "zone", "operator": "In"}]},
        {"matchExpressions": [{"key": "zone", "operator": "Exists", "values": ["a"]}]},
        {"matchExpressions": [{"key": "zone", "operator": "Gt", "values": []}]},
        {"matchExpressions": [{"key": "zone", "operator": "Lt", "values": ["1", "2"]}]},
        {"matchFields": [{"key": "spec.unschedulable", "operator": "In", "values": ["x"]}]},
    ],
)
def test_what_is_not_understood_in_a_term_excludes_no_node(entry: Any) -> None:
    assert constraints_of({"spec": affinity(entry)}).terms == (Term(),)
    assert excluded(affinity(entry)) == ""


def test_the_order_of_labels_in_a_selector_makes_no_difference() -> None:
    first, second = {"nodeSelector": {"a": "1", "b": "2"}}, {"nodeSelector": {"b": "2", "a": "1"}}
    assert constraints_of({"spec": first}) == constraints_of({"spec": second})


def test_what_is_understood_beside_it_still_counts() -> None:
    mixed = {"matchExpressions": [{"operator": "Near"}, *expressions(("zone", "In", ["b"]))]}
    assert excluded(affinity(mixed), zone="a") == "node affinity zone In (b): the node has zone=a"
    assert excluded({"nodeSelector": {"rack": 7, "zone": "b"}}) == "nodeSelector zone=b: the node has no label zone"


@pytest.mark.parametrize(
    "tolerations",
    [["dedicated"], [{"key": "dedicated", "operator": "Gt", "value": "3"}], [{"key": 7}], {"key": "dedicated"}, "all"],
)
def test_a_toleration_that_is_not_understood_may_tolerate_anything(tolerations: Any) -> None:
    spec = {"tolerations": tolerations}
    assert constraints_of({"spec": spec}).tolerations == (Toleration(operator="Exists"),)
    assert excluded(spec, Taint("dedicated", "db", "NoSchedule")) == ""


def test_a_job_with_a_malformed_template_is_read() -> None:
    meta = {"uid": "u", "namespace": "ns", "name": "j", "creationTimestamp": "2026-01-02T03:04:05Z"}
    spec = {"nodeSelector": ["zone"], **affinity("zone"), "tolerations": 7, "containers": 3}
    found = job_view({"metadata": meta, "spec": {"template": {"spec": spec}, "memory": "1Gi"}})
    assert found is not None
    assert found.constraints == Constraints(terms=(Term(),), tolerations=(Toleration(operator="Exists"),))


HAS_A: tuple[str, str, list[str]] = ("a", "Exists", [])


@pytest.mark.parametrize(
    ("most", "spec"),
    [
        (32, lambda count: affinity(*[{"matchExpressions": expressions(("zone", "In", ["b"]))}] * count)),
        (256, lambda count: affinity({"matchExpressions": expressions(("zone", "In", ["b"] * count))})),
        (64, lambda count: tolerating(*[{**DEDICATED, "key": "other"}] * count)),
        (15, lambda count: affinity({"matchExpressions": expressions(*[HAS_A] * count, ("b", "Exists", []))})),
        (63, lambda count: {"nodeSelector": {**{f"k{i:03}": "v" for i in range(count)}, "zone": "b"}}),
    ],
)  # fmt: skip
def test_what_is_too_long_to_be_read_excludes_no_node(most: int, spec: Any) -> None:
    labels = {"zone": "a", "a": "", **{f"k{i:03}": "v" for i in range(64)}}
    taints = (Taint("dedicated", "db", "NoSchedule"),) if "tolerations" in spec(1) else ()
    assert excluded(spec(most), *taints, **labels) != ""
    assert excluded(spec(most + 1), *taints, **labels) == ""

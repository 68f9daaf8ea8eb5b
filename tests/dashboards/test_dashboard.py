"""The Grafana dashboard: every query answers on a real Prometheus, and every metric has a place."""

import itertools
import json
import re
from typing import Any

import pytest
from exporter import HEALTHY, Metrics
from helm import CHART

DASHBOARD: dict[str, Any] = json.loads((CHART / "dashboards" / "rowen.json").read_text())
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [
    pytest.param(target["expr"], id=f"{panel['title']} {target['refId']}")
    for panel in PANELS
    for target in panel["targets"]
]
# What Grafana puts in for its variables.
_VARIABLES = {"$__rate_interval": "10s", "$__range": "10s", "$namespace": ".*", "$service": ".*", "$node": ".*"}
_SUFFIX = re.compile(r"_(bucket|count|sum)$")


def metric_names() -> set[str]:
    """The names that the components promise, histograms without their suffixes."""
    names = set()
    for family in Metrics(HEALTHY).registry.collect():
        names.add(f"{family.name}_total" if family.type == "counter" else family.name)
    return names


def used_names(text: str) -> set[str]:
    """Names of Rowen's metrics in an expression."""
    return {_SUFFIX.sub("", name) for name in re.findall(r"\browen_\w+", text)}


@pytest.mark.parametrize("expression", QUERIES)
def test_query_answers(healthy: Any, expression: str) -> None:
    for variable, value in _VARIABLES.items():
        expression = expression.replace(variable, value)
    samples = healthy.query(expression)
    assert samples
    assert all(sample["value"][1] != "NaN" for sample in samples)


@pytest.mark.parametrize("variable", [v for v in DASHBOARD["templating"]["list"] if v["type"] == "query"])
def test_variable_has_values(healthy: Any, variable: dict[str, Any]) -> None:
    metric, label = re.fullmatch(r"label_values\((\w+)(?:\{.*\})?, (\w+)\)", variable["definition"]).groups()  # type: ignore[union-attr]
    assert healthy.query(f'{metric}{{{label}!=""}}')


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_legends_use_labels_that_are_there(healthy: Any, panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        expression = target["expr"]
        for variable, value in _VARIABLES.items():
            expression = expression.replace(variable, value)
        for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
            assert all(label in sample["metric"] for sample in healthy.query(expression)), (expression, label)


def test_owners_of_memory_add_up_in_one_stack(healthy: Any) -> None:
    (panel,) = (panel for panel in PANELS if panel["title"] == "Memory by owner")
    (target,) = panel["targets"]
    samples = healthy.query(target["expr"].replace("$node", ".*"))
    assert {sample["metric"]["owner"] for sample in samples} == {
        "fixed", "online_used", "online_ahead", "offline", "free",
    }  # fmt: skip
    assert panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "normal"


def test_every_metric_is_shown_and_none_is_invented() -> None:
    shown = set().union(*(used_names(target["expr"]) for panel in PANELS for target in panel["targets"]))
    assert shown == metric_names()


def test_panels_have_an_explanation_and_a_unit() -> None:
    for panel in PANELS:
        assert panel["description"], panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}", panel["title"]


def test_panels_do_not_overlap() -> None:
    identifiers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(identifiers)) == len(identifiers)
    for one, other in itertools.combinations([panel["gridPos"] for panel in DASHBOARD["panels"]], 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)
        assert one["x"] + one["w"] <= 24

"""The alerts: silent while all is well, and each of them speaks when its trouble is there."""

import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml
from exporter import HEALTHY, Metrics
from helm import CHART

RULES = CHART / "rules" / "rowen.yaml"
ALERTS: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
]
every_alert = pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool on this machine")
def test_promtool_accepts_the_rules() -> None:
    done = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@every_alert
def test_silent_while_all_is_well(healthy: Any, alert: dict[str, Any]) -> None:
    assert healthy.query(alert["expr"]) == []


@every_alert
def test_speaks_when_its_trouble_is_there(ill: Any, alert: dict[str, Any]) -> None:
    assert ill.query(alert["expr"])


@every_alert
def test_that_jobs_beside_requests_slow_them_by_design_is_no_trouble(sharing: Any, alert: dict[str, Any]) -> None:
    by_design = alert["alert"] in ("RowenHarvestSlowsService", "RowenHarvestSlowsTokens")
    assert bool(sharing.query(alert["expr"])) != by_design


@every_alert
def test_labels_in_its_text_are_there(ill: Any, alert: dict[str, Any]) -> None:
    text = " ".join(alert["annotations"].values())
    for label in re.findall(r"\$labels\.(\w+)", text):
        assert all(label in sample["metric"] for sample in ill.query(alert["expr"])), label


@every_alert
def test_uses_metrics_that_exist(alert: dict[str, Any]) -> None:
    known = {family.name for family in Metrics(HEALTHY).registry.collect()}
    for name in re.findall(r"\browen_\w+", alert["expr"]):
        assert re.sub(r"_(bucket|count|sum|total)$", "", name) in known


@every_alert
def test_says_how_bad_it_is_and_what_it_means(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in ("warning", "critical")
    assert set(alert["annotations"]) == {"summary", "description"}


def test_prometheus_loads_all_of_them(healthy: Any) -> None:
    rules = healthy.rules()
    assert {rule["name"] for rule in rules} == {alert["alert"] for alert in ALERTS}
    assert all(rule.get("lastError") is None for rule in rules)

import json
import subprocess
from pathlib import Path

from reporting.report import Missing, print_report, report


def test_a_value_that_a_run_cannot_give_is_null_with_its_reason(capsys):
    figures = {"increase": (0.25, "fraction"), "increase_low": (Missing("2 blocks"), "fraction")}
    obj = report("sample", 0, figures, {"alone": {"idle": (0.5, "fraction")}})
    assert obj["figures"]["increase"] == {"value": 0.25, "unit": "fraction"}
    assert obj["figures"]["increase_low"] == {"value": None, "unit": "fraction", "reason": "2 blocks"}
    print_report(obj, True)
    assert json.loads(capsys.readouterr().out)["baselines"] == {"alone": {"idle": {"value": 0.5, "unit": "fraction"}}}
    print_report(obj, False)
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == ["increase", "0.2500", "fraction"] for line in lines)
    assert any(line.split() == ["increase_low", "no", "value:", "2", "blocks"] for line in lines)


def test_a_report_names_the_commit_that_it_is_of():
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    head = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    named = report("sample", 0, {}, {}, ["no-such-package"])["versions"]
    assert named["no-such-package"] == "absent"
    assert head.startswith(named["rowen"].removesuffix("-dirty"))
    assert len(named["rowen"]) >= 7

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from reporting import report as reports
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


def test_a_report_names_the_commit_that_it_is_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, results = tmp_path / "benchmarks" / "reporting", tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)
    results.mkdir()
    script = Path(shutil.copy(reports.__file__, folder))
    (results / "a.json").write_text("1")

    def git(*words: str) -> str:
        own = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", "-C", tmp_path, *own, *words], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    # Of a hook that runs this, whose repository is another one.
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    git("init", "--quiet")
    monkeypatch.setattr(reports, "__file__", str(script))
    assert reports._commit() == "unknown"
    git("add", ".")
    git("commit", "--quiet", "--message=a")
    commit = git("rev-parse", "--short", "HEAD")
    assert reports._commit() == commit
    # One result after another is written.
    (results / "a.json").write_text("2")
    (tmp_path / "notes.txt").write_text("")
    assert reports._commit() == commit
    script.write_text("changed")
    assert reports._commit() == f"{commit}-dirty"


def test_versions_are_those_of_packages_and_the_commit_of_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "_COMMIT", "abc1234")
    versions = report("sample", 0, {}, {}, ["no-such-package", "rowen"])["versions"]
    assert (versions["no-such-package"], versions["rowen"]) == ("absent", "abc1234")

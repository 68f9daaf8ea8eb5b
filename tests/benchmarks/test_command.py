"""The command line of benchmarks that start servers."""

import json

import pytest
from reporting.command import run_command
from reporting.report import report


@pytest.fixture(autouse=True)
def _signals(monkeypatch):
    monkeypatch.setattr("reporting.command.signal.signal", lambda *_: None)
    monkeypatch.setattr("reporting.command.structlog.configure", lambda **_: None)


@pytest.mark.parametrize(
    ("words", "seeded", "told"),
    [(["--quick", "--seed=7"], True, (True, 7)), ([], True, (False, 0)), ([], False, (False, 0))],
)
def test_it_runs_draws_and_prints_as_told(words, seeded, told, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("sys.argv", ["name", "--json", f"--picture={tmp_path}/picture.png", *words])
    asked, drawn = [], []

    def run(quick, seed):
        asked.append((quick, seed))
        return report("name", seed, {"speed": (1.0, "1")}, {})

    run_command("What it is.", "less", run, lambda obj, path: drawn.append((obj["name"], path.name)), seeded=seeded)
    assert (asked, drawn) == ([told], [("name", "picture.png")])
    assert json.loads(capsys.readouterr().out)["name"] == "name"


def test_what_the_machine_lacks_is_told_in_a_line(monkeypatch):
    def run(*_):
        raise RuntimeError("one core is too few")

    monkeypatch.setattr("sys.argv", ["name"])
    with pytest.raises(SystemExit, match="one core is too few"):
        run_command(None, "less", run, lambda *_: None)


def test_where_nothing_is_drawn_there_is_no_picture_to_ask_for(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["name", "--picture=x.png"])
    with pytest.raises(SystemExit):
        run_command(None, "less", lambda *_: report("name", 0, {}, {}))
    assert "--picture" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["name", "--json"])
    run_command(None, "less", lambda *_: report("name", 0, {}, {}))
    assert json.loads(capsys.readouterr().out)["name"] == "name"

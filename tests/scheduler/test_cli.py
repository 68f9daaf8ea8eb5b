"""`kubectl rowen`."""

import io
from pathlib import Path

import pytest
from apiserver import ApiServer
from rich.console import Console
from typer.testing import CliRunner

from rowen.crds.offline_job import OfflineJobStatus
from rowen.scheduler.cli import app, show

STATUS = OfflineJobStatus.from_wire(
    {
        "conditions": [
            {"type": "Placed", "status": "False", "reason": "Waiting", "message": "[n] idle", "lastTransitionTime": "x"}
        ],
        "throughput": {"soloTokensPerSecond": 100.0},
        "explanation": {
            "message": "no candidate holds",
            "candidates": [
                {
                    "node": "n", "devices": ["cpu0"], "idle": 0.12, "memory": 1, "alignment": 1, "sharing": 0.5,
                    "predictedFraction": 0.06, "chosen": False, "reason": "idle 0.12 < SLA 0.20",
                }
            ],
        },
    }
)  # fmt: skip


def shown(status: OfflineJobStatus, width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width)
    show("j", status, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_holds_every_factor() -> None:
    told = shown(STATUS)
    for part in (
        "Waiting: [n] idle",
        "soloTokensPerSecond 100",
        "no candidate holds",
        "n/cpu0",
        "0.12",
        "0.50",
        "0.06",
    ):
        assert part in told


def test_what_decided_is_one_line_however_narrow_the_terminal_is() -> None:
    told = shown(STATUS, width=40).splitlines()
    assert "n/cpu0: idle 0.12 < SLA 0.20" in told
    assert any(line.endswith("Waiting: [n] idle") for line in told)


def test_a_job_that_was_not_seen_yet() -> None:
    assert "has not looked at it yet" in shown(OfflineJobStatus())


@pytest.mark.parametrize("arguments", [["explain", "none"], ["explain", "none", "-n", "nowhere"]])
def test_a_wrong_name_is_told_in_one_line(
    api_server: ApiServer, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig))
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert 'offlinejobs.rowen.dev "none" not found' in result.stderr


def test_a_missing_kubeconfig_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    result = CliRunner().invoke(app, ["explain", "j"])
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr


def test_help_names_the_command() -> None:
    assert "explain" in CliRunner().invoke(app, ["--help"]).stdout

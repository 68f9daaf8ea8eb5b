"""Runs `kubectl rowen` as a user does."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rowen.scheduler.cli.app import app


def run(monkeypatch: pytest.MonkeyPatch, kubeconfig: Path | str, *arguments: str, text: str | None = None) -> Result:
    """What a command did; `text` is its standard input."""
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    monkeypatch.setenv("COLUMNS", "250")
    return CliRunner().invoke(app, list(arguments), input=text)


def invoke(monkeypatch: pytest.MonkeyPatch, kubeconfig: Path | str, *arguments: str, text: str | None = None) -> str:
    """What a command prints that succeeds."""
    result = run(monkeypatch, kubeconfig, *arguments, text=text)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout


def failed(monkeypatch: pytest.MonkeyPatch, kubeconfig: Path | str, *arguments: str, text: str | None = None) -> str:
    """The one line that a command prints that fails."""
    result = run(monkeypatch, kubeconfig, *arguments, text=text)
    assert (result.exit_code, result.stdout) == (1, ""), result.output
    lines = result.stderr.splitlines()
    assert len(lines) == 1
    return lines[0]

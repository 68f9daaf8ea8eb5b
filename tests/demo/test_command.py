"""`python -m rowen.demo run`, as far as its arguments."""

import pytest
from rich.console import Console
from typer.testing import CliRunner

from rowen.demo import __main__ as command
from rowen.demo.mode import Mode


@pytest.mark.parametrize(("arguments", "mode"), [([], Mode.PREEMPT), (["--mode", "CoServe"], Mode.CO_SERVE)])
def test_the_mode_is_chosen(arguments, mode, tmp_path, monkeypatch):
    asked = []

    async def run_demo(settings: command.Settings, _: Console) -> bool:
        asked.append(settings.mode)
        return True

    monkeypatch.setattr(command, "run_demo", run_demo)
    found = CliRunner().invoke(command.app, ["run", "--out", str(tmp_path), *arguments])
    assert (found.exit_code, asked) == (0, [mode])


def test_an_unknown_mode_is_refused_with_the_choices(tmp_path):
    found = CliRunner().invoke(command.app, ["run", "--out", str(tmp_path), "--mode", "Spatial"])
    assert found.exit_code == 2
    assert "'Preempt', 'CoServe'" in " ".join(found.output.replace("│", " ").split())

"""Rowen's scheduler in a real engine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(600)
def test_the_device_follows_the_engine(tiny_model: Path) -> None:
    script = Path(__file__).with_name("engine_script.py")
    ended = subprocess.run([sys.executable, script, tiny_model], capture_output=True, text=True, env=_environment())
    assert ended.returncode == 0, ended.stderr[-4000:]
    start, finished, running, aborted = json.loads(ended.stdout.splitlines()[-1])
    assert start == {"events": ["pin"], "steps": [], "made_of": [], "in_flight": 0}
    # Three requests of eight tokens: the engine counts once, from its first request to the end of its last step.
    assert finished["events"] == ["busy", "idle"]
    assert len(finished["steps"]) >= 8
    # All prompts first, then what each of them gets after its first token; the last step's are nobody's any more.
    assert sum(prompt > 0 for _, prompt in finished["made_of"]) <= 3
    assert sum(rows for rows, _ in finished["made_of"]) == 3 * 7
    assert len(finished["made_of"]) == len(finished["steps"])
    assert all(begin < end for begin, end in finished["steps"])
    assert all(earlier[1] <= later[0] for earlier, later in zip(finished["steps"], finished["steps"][1:], strict=False))
    assert (running["events"], running["in_flight"]) == (["busy"], 1)
    assert (aborted["events"], aborted["in_flight"]) == (["idle"], 0)


def _environment() -> dict[str, str]:
    from runtime.server import environment

    return environment()

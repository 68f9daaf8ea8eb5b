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
    assert start == {"events": ["pin"], "steps": [], "made_of": [], "shares": [], "in_flight": 0}
    # Three requests of eight tokens: the engine counts once, from its first request to the end of its last step.
    assert finished["events"] == ["busy", "idle"]
    assert len(finished["steps"]) >= 8
    # All prompts first, then what each of them gets after its first token; the last step's are nobody's any more.
    assert sum(prompt > 0 for _, prompt in finished["made_of"]) <= 3
    assert sum(rows for rows, _ in finished["made_of"]) == 3 * 7
    assert len(finished["made_of"]) == len(finished["steps"])
    assert all(begin < end for begin, end in finished["steps"])
    assert all(earlier[1] <= later[0] for earlier, later in zip(finished["steps"], finished["steps"][1:], strict=False))
    # A share for each step. The first steps of so many requests are alone, as are those that read a prompt; then it
    # grows by a tenth after four steps.
    assert len(finished["shares"]) == len(finished["steps"])
    decodes = [
        share for share, (rows, prompt) in zip(finished["shares"], finished["made_of"], strict=True) if not prompt
    ]
    assert sum(finished["shares"]) == sum(decodes)
    assert set(decodes) <= {0, 1}
    assert decodes[-1] == 1
    assert (running["events"], running["in_flight"]) == (["busy"], 1)
    assert (aborted["events"], aborted["in_flight"]) == (["idle"], 0)


def _environment() -> dict[str, str]:
    from runtime.server import environment

    return environment()

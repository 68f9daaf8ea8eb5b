"""The example of a trainer of one's own runs with Rowen in its image and without, and says how far it is."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

EXAMPLE = Path(__file__).parents[2] / "examples" / "jobs" / "own-trainer.yaml"
TELLS = """
import rowen.runtime.native as native
class Told:
    def progress(self, *numbers):
        print("told", *numbers, flush=True)
native.tenant = lambda: Told()
import rowen.runtime.progress as own
own.tenant = native.tenant
"""


def script() -> str:
    config_map: dict[str, Any] = next(yaml.safe_load_all(EXAMPLE.read_text()))
    return str(config_map["data"]["train.py"])


def run(folder: Path, model: Path, before: str) -> str:
    data = folder / "data.jsonl"
    rows = [{"prompt": f"say {number}", "completion": f" {number}"} for number in range(8)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "train.py").write_text(before + script())
    places = {"MODEL": str(model), "DATA": str(data), "OUTPUT": str(folder / "out"), "HF_HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "train.py"],
        cwd=folder,
        env={**os.environ, **places, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (folder / "out" / "adapter_model.safetensors").is_file()
    return done.stdout


def told(text: str) -> list[tuple[int, int, int]]:
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith("told ")]
    return [(int(done), int(total), int(tokens)) for done, total, tokens in lines]


def test_it_says_how_far_it_is(tmp_path: Path, tiny_model: Path) -> None:
    numbers = told(run(tmp_path, tiny_model, TELLS))
    assert [(done, total) for done, total, _ in numbers] == [(step, 6) for step in range(1, 7)]
    tokens = [count for *_, count in numbers]
    assert tokens[0] == 0
    assert tokens == sorted(set(tokens))


def test_it_goes_on_without_rowen_in_the_image(tmp_path: Path, tiny_model: Path) -> None:
    missing = "import sys\nsys.modules['rowen'] = None\n"
    assert told(run(tmp_path, tiny_model, missing)) == []


def test_the_job_runs_that_script() -> None:
    config_map, job = yaml.safe_load_all(EXAMPLE.read_text())
    [container] = job["spec"]["template"]["spec"]["containers"]
    [name] = config_map["data"]
    assert container["command"] == ["python", f"/code/{name}"]

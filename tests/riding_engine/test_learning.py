"""A job that rides in the steps of a serving engine learns what it would learn by itself."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from riding_engine.conftest import SHAPE
from riding_tuner.conftest import agent, sockets
from riding_tuner.matchmaker import Matchmaker
from runtime.conftest import dataset
from runtime.server import environment
from runtime.tuning_runs import spec, tune
from safetensors.torch import load_file

from rowen.crds.job.worker import TuningSpec
from rowen.demo.samples import write_model

__all__ = ["agent", "dataset", "sockets"]


class Service:
    """`service.py` as a process."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self._process = process
        self._log = log

    def hear(self) -> dict[str, Any]:
        """What it says next; vLLM may say something in between."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                said: dict[str, Any] = json.loads(line)
                return said
        raise AssertionError(f"it has ended:\n{self._log.read_text()[-4000:]}")

    def end(self) -> dict[str, Any]:
        """What it says at last."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self.hear()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With weights as they are made."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    write_model(folder, SHAPE)
    return folder


@pytest.fixture
def service(model: Path, adapter: Path, agent: Matchmaker, tmp_path: Path) -> Iterator[Service]:
    log = tmp_path / "service.log"
    command = [sys.executable, Path(__file__).with_name("service.py"), model, adapter, agent.engine_path]
    pipe = subprocess.PIPE
    with (
        log.open("w") as stream,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=stream, text=True, env=environment()) as process,
    ):
        yield Service(process, log)
        process.kill()


def learned(job: TuningSpec, folder: Path, ride: str | None = None) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Metrics and adapter of the job, by a worker of its own."""
    ended = tune(job, folder, ride=ride)
    assert ended.code == 0, ended.result
    output = Path(job.output.where)
    return json.loads((output / "metrics.json").read_text()), load_file(output / "adapter_model.safetensors")


@pytest.mark.timeout(600)
def test_200_steps_in_a_serving_engine_are_those_of_the_plain_tuner(
    model: Path, dataset: Path, agent: Matchmaker, service: Service, tmp_path: Path
) -> None:
    changes: dict[str, Any] = {"epochs": 50, "learning_rate": 0.001, "checkpoint_steps": 1000}
    # While the engine starts.
    plain, weights = learned(spec(model, dataset, tmp_path / "plain", **changes), tmp_path)
    assert service.hear() == {"ready": True}
    riding, ridden = learned(spec(model, dataset, tmp_path / "ridden", **changes), tmp_path, agent.job_path)
    served = service.end()
    assert (plain["steps"], riding["steps"]) == (200, 200)
    assert plain["training_losses"][-1] < plain["training_losses"][0]
    for name in ("training_losses", "adapter_loss", "base_loss"):
        assert riding[name] == pytest.approx(plain[name], abs=1e-4), name
    torch.testing.assert_close(ridden, weights, rtol=0, atol=1e-4)
    sums = served["sums"]
    # The whole way forward went through the engine's steps, that of what is held out, too.
    assert 0 < sums["backward_tokens"] < sums["forward_tokens"]
    assert sums["solo_tokens"] == 0
    assert served["rounds"] > 0
    assert served["wrong"] == 0, served

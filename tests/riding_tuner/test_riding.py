"""A job that rides learns what it would learn by itself."""

import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from riding_tuner.engine import Engine, host_of
from riding_tuner.instant import SEQUENCES
from riding_tuner.matchmaker import Matchmaker
from riding_tuner.plain_learner import PlainLearner
from runtime.tuning_runs import spec, tune
from safetensors.torch import load_file

from rowen.crds.job.fine_tune import Evaluation, Lora
from rowen.crds.job.worker import TuningSpec
from rowen.runtime.coserve.ride_link import RideLink
from rowen.runtime.coserve.seat import reception as reception_module
from rowen.runtime.coserve.seat.host import Host
from rowen.runtime.coserve.task import Task
from rowen.runtime.coserve.training.architecture import read_architecture
from rowen.runtime.coserve.training.checks import check_task
from rowen.runtime.coserve.training.learner import MachineLearner
from rowen.runtime.native import NoTenant
from rowen.runtime.tuning.fingerprint import model_digest
from rowen.runtime.tuning.results.folder import FolderResults
from rowen.runtime.tuning.riding.ride import Ride
from rowen.runtime.tuning.riding.stand_in import RidingAdapter
from rowen.runtime.tuning.tuner import Tuner
from rowen.runtime.worker import Progress


def learn(job: TuningSpec, link: RideLink | None = None) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Metrics and adapter of the job, run in this process."""
    output = Path(job.output.where)
    model, dataset = Path(job.base_model.name_or_path), Path(job.dataset.where)
    results = FolderResults(output, model, 1)
    Tuner(job, model, dataset, results, Progress("steps", link or NoTenant()), None, link).run()
    return json.loads((output / "metrics.json").read_text()), load_file(output / "adapter_model.safetensors")


def machine(model: Path) -> tuple[Host, MachineLearner]:
    """An engine's learner, and what it says of itself."""
    memory_bytes, architecture = 256 * 2**20, read_architecture(model)

    def check(task: Task) -> None:
        check_task(task, architecture, torch.float32, memory_bytes)

    return host_of(model, check), MachineLearner(model, memory_bytes, torch.float32)


def furthest(some: dict[str, torch.Tensor], others: dict[str, torch.Tensor]) -> float:
    """Between two weights of the same name."""
    assert some.keys() == others.keys()
    return max(float((some[name] - others[name]).abs().max()) for name in some)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"packing": True, "gradient_accumulation": 2, "lora": Lora(rank=4, target_modules=["all-linear"])},
        {"evaluation": Evaluation(steps=5), "schedule": "Cosine", "warmup_fraction": 0.2},
    ],
)
def test_it_learns_the_same(
    tiny_model: Path, dataset: Path, agent: Matchmaker, tmp_path: Path, changes: dict[str, Any]
) -> None:
    plain, weights = learn(spec(tiny_model, dataset, tmp_path / "plain", **changes))
    with Engine(agent.engine_path, host_of(tiny_model), PlainLearner(tiny_model)):
        riding, ridden = learn(spec(tiny_model, dataset, tmp_path / "ridden", **changes), RideLink(agent.job_path))
    assert furthest(weights, ridden) < 1e-4
    for name in ("training_losses", "adapter_loss", "base_loss"):
        assert riding[name] == pytest.approx(plain[name], rel=1e-4), name
    assert riding["best_step"] == plain["best_step"]
    assert [step for step, _ in riding["evaluations"]] == [step for step, _ in plain["evaluations"]]
    last = agent.progress[-1]
    assert (last.completed, last.total) == (riding["steps"], riding["steps"])


def test_200_steps_in_an_engine_are_those_of_the_plain_tuner(
    tiny_model: Path, dataset: Path, agent: Matchmaker, tmp_path: Path
) -> None:
    changes: dict[str, Any] = {"epochs": 50, "learning_rate": 0.001, "checkpoint_steps": 1000}
    plain, weights = learn(spec(tiny_model, dataset, tmp_path / "plain", **changes))
    host, learner = machine(tiny_model)
    with Engine(agent.engine_path, host, learner, tokens=48) as engine:
        riding, ridden = learn(spec(tiny_model, dataset, tmp_path / "ridden", **changes), RideLink(agent.job_path))
        assert engine.tasks >= 200
    assert riding["steps"] == 200
    assert furthest(weights, ridden) < 1e-4
    assert riding["training_losses"] == pytest.approx(plain["training_losses"], abs=1e-4)


def test_jobs_ride_where_memory_is_for_one_task_alone(
    tiny_model: Path, agent: Matchmaker, adapter: RidingAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reception_module, "_WANTED_SECONDS", 0.1)
    # Of any task it is checked that it fits, and none does beside another one or an answer.
    learner = MachineLearner(tiny_model, 1, torch.float32)
    digest = model_digest(tiny_model)
    rides = [Ride(RideLink(agent.job_path), digest, "Float32", adapter) for _ in range(2)]
    done: list[int] = []

    def ask(number: int, times: int) -> None:
        for _ in range(times):
            assert rides[number].gradients(SEQUENCES, 1.0).learned_tokens
            done.append(number)

    with Engine(agent.engine_path, host_of(tiny_model), learner):
        threads = [threading.Thread(target=ask, args=(number, 3 * (number + 1))) for number in (0, 1)]
        for thread in threads:
            thread.start()
        # The first one has its last answer, stays, and does not come with another task.
        for thread in threads:
            thread.join()
    assert sorted(done) == [0] * 3 + [1] * 6
    for ride in rides:
        ride.close()


def test_a_job_goes_on_in_the_other_mode(tiny_model: Path, dataset: Path, agent: Matchmaker, tmp_path: Path) -> None:
    _, weights = learn(spec(tiny_model, dataset, tmp_path / "plain"))
    job = spec(tiny_model, dataset, tmp_path / "both")
    host, learner = machine(tiny_model)
    with Engine(agent.engine_path, host, learner):
        for attempt, ride in enumerate((None, agent.job_path), start=1):
            ended = tune(job, tmp_path, attempt=attempt, die=("report", 5), ride=ride)
            assert ended.code == -signal.SIGKILL
        ended = tune(job, tmp_path, attempt=3)
    assert ended.code == 0
    assert ended.result is not None
    assert ended.result.completed == 12
    assert furthest(weights, load_file(tmp_path / "both" / "adapter_model.safetensors")) < 1e-4
    # It rode for some steps, and not for all.
    assert len({report.completed for report in agent.progress} - {12}) > 0

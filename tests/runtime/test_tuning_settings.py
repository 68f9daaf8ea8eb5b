"""Every field of how a job learns takes effect, and none of them is in the way of going on after a kill."""

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import torch
from pyarrow import parquet
from runtime.tuning_data.test_chat import MARKED
from runtime.tuning_runs import Ended, spec, tune
from safetensors import safe_open
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rowen.crds.job.fine_tune import Evaluation, Lora
from rowen.crds.job.trainer_arguments import TrainerArguments
from rowen.crds.job.worker import ExitCode, TuningSpec
from rowen.demo.samples import dialogues

RESULT = ("adapter_model.safetensors", "adapter_config.json", "metrics.json")


def result(output: Path) -> dict[str, bytes]:
    return {name: (output / name).read_bytes() for name in RESULT}


def metrics(output: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((output / "metrics.json").read_text())
    return found


def same_weights(output: Path, other: Path) -> bool:
    """Of the tensors alone: the file has the digest of its job in it, which is another one in any case."""
    one, two = (load_file(folder / RESULT[0]) for folder in (output, other))
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def run(job: TuningSpec, folder: Path, **how: Any) -> Ended:
    ended = tune(job, folder, **how)
    assert ended.code == 0, ended
    return ended


EVERYTHING: dict[str, Any] = {
    "lora": Lora(rank=4, alpha=8, dropout=0.2, target_modules=["all-linear"]),
    "packing": True,
    "batch_size": 1,
    "gradient_accumulation": 2,
    "schedule": "Cosine",
    "warmup_fraction": 0.2,
    "checkpoint_steps": 1,
    "evaluation": Evaluation(steps=2),
    "arguments": TrainerArguments(neftune_noise_alpha=5.0, weight_decay=0.01, label_smoothing_factor=0.1),
}


@pytest.fixture(scope="module")
def undisturbed(tiny_model: Path, dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a job with all that is random or has a state in it."""
    folder = tmp_path_factory.mktemp("everything")
    run(spec(tiny_model, dataset, folder / "out", **EVERYTHING), folder)
    return folder / "out"


def test_the_job_with_everything_is_one_that_a_kill_could_disturb(undisturbed: Path) -> None:
    found = metrics(undisturbed)
    assert found["steps"] % 3 == 0
    # An epoch ends with a step of fewer batches, and there are several steps in it.
    assert found["steps"] // 3 > 2
    assert [step for step, _ in found["evaluations"]] == [*range(2, found["steps"] + 1, 2)]


@pytest.mark.parametrize("every", [2, 3, 4], ids=lambda every: f"after {every - 1} steps each")
def test_killed_again_and_again_it_ends_with_the_same_bytes(
    every: int, undisturbed: Path, tiny_model: Path, dataset: Path, tmp_path: Path
) -> None:
    job = spec(tiny_model, dataset, tmp_path / "out", **EVERYTHING)
    deaths = 0
    while (ended := tune(job, tmp_path, attempt=deaths + 1, die=("report", every + 1))).code:
        assert ended.code == -signal.SIGKILL
        deaths += 1
    # The first report of an attempt is where it begins, and the last commit comes after the last step's.
    assert deaths == (metrics(undisturbed)["steps"] - 1) // (every - 1)
    assert result(tmp_path / "out") == result(undisturbed)


def test_no_step_is_told_twice_to_tensorboard(
    undisturbed: Path, tiny_model: Path, dataset: Path, tmp_path: Path
) -> None:
    job = spec(tiny_model, dataset, tmp_path / "out", **EVERYTHING)
    for attempt in (1, 2):
        assert tune(job, tmp_path, attempt=attempt, die=("report", 4)).code == -signal.SIGKILL
    run(job, tmp_path, attempt=3)
    assert len(list((tmp_path / "out" / "tensorboard").iterdir())) == 3
    killed, straight = (EventAccumulator(str(output / "tensorboard")) for output in (tmp_path / "out", undisturbed))
    steps = metrics(undisturbed)["steps"]
    for events in (killed, straight):
        events.Reload()
        assert [event.step for event in events.Scalars("train/loss")] == [*range(1, steps + 1)]
        assert [event.step for event in events.Scalars("eval/loss")] == [*range(2, steps + 1, 2)]
    for name in ("train/loss", "train/learning_rate", "eval/loss"):
        assert [event.value for event in killed.Scalars(name)] == [event.value for event in straight.Scalars(name)]


def test_another_jobs_events_go_with_its_checkpoint(tiny_model: Path, dataset: Path, tmp_path: Path) -> None:
    run(spec(tiny_model, dataset, tmp_path / "out", epochs=1), tmp_path)
    [before] = (tmp_path / "out/tensorboard").iterdir()
    (tmp_path / "out/tensorboard/events.out.tfevents.0.mine").write_text("mine")
    run(spec(tiny_model, dataset, tmp_path / "out", epochs=1, seed=8), tmp_path, attempt=2)
    left = {path.name for path in (tmp_path / "out/tensorboard").iterdir()}
    assert before.name not in left
    assert len(left) == 2
    assert "events.out.tfevents.0.mine" in left


@pytest.fixture
def chats(tiny_model: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A model whose template marks what the assistant says, and a folder of conversations."""
    shutil.copytree(tiny_model, tmp_path / "model")
    (tmp_path / "model" / "chat_template.jinja").write_text(MARKED)
    rows = [
        {"messages": [{"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": row["completion"]}]}
        for row in dialogues(20)
    ]
    (tmp_path / "chats").mkdir()
    (tmp_path / "chats" / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:10]))
    parquet.write_table(pyarrow.Table.from_pylist(rows[10:]), tmp_path / "chats" / "b.parquet")
    return tmp_path / "model", tmp_path / "chats"


def test_chats_are_learned_whatever_the_kills(chats: tuple[Path, Path], tmp_path: Path) -> None:
    change = {"assistant_only_loss": True, "held_out_fraction": 0.0, "epochs": 1}
    run(spec(*chats, tmp_path / "straight", **change), tmp_path)
    job = spec(*chats, tmp_path / "out", **change)
    assert tune(job, tmp_path, die=("report", 4)).code == -signal.SIGKILL
    ended = run(job, tmp_path, attempt=2)
    assert result(tmp_path / "out") == result(tmp_path / "straight")
    found = metrics(tmp_path / "out")
    assert (found["training_rows"], found["base_loss"], found["adapter_loss"]) == (20, None, None)
    assert found["training_losses"][-1] < found["training_losses"][0]
    assert ended.result is not None
    assert ended.result.message == "5 steps over 20 rows"
    all_of_it = spec(*chats, tmp_path / "all", **change | {"assistant_only_loss": False})
    run(all_of_it, tmp_path, attempt=3)
    assert not same_weights(tmp_path / "all", tmp_path / "out")


def rates(output: Path) -> list[float]:
    events = EventAccumulator(str(output / "tensorboard"))
    events.Reload()
    return [event.value for event in events.Scalars("train/learning_rate")]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("Constant", [0, 1 / 3, 2 / 3, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
        ("Linear", [0, 1 / 3, 2 / 3, 1, 8 / 9, 7 / 9, 6 / 9, 5 / 9, 4 / 9, 3 / 9, 2 / 9, 1 / 9]),
    ],
)
def test_the_learning_rate_follows_its_schedule(
    schedule: str, expected: list[float], tiny_model: Path, dataset: Path, tmp_path: Path
) -> None:
    run(spec(tiny_model, dataset, tmp_path / "out", schedule=schedule, warmup_fraction=0.25), tmp_path)
    assert rates(tmp_path / "out") == pytest.approx([0.01 * part for part in expected])


CHANGES: list[dict[str, Any]] = [
    {"gradient_accumulation": 2},
    {"max_gradient_norm": 0.01},
    {"precision": "BFloat16"},
    {"lora": Lora(rank=4, alpha=8, dropout=0.3)},
    {"lora": Lora(rank=4, alpha=8, rank_stabilized=True)},
    {"lora": Lora(rank=4, alpha=8, target_modules=["all-linear"])},
    {"schedule": "Cosine"},
    {"packing": True},
    {"arguments": TrainerArguments(weight_decay=0.5)},
    {"arguments": TrainerArguments(adam_beta2=0.9)},
    {"arguments": TrainerArguments(label_smoothing_factor=0.2)},
    {"arguments": TrainerArguments(neftune_noise_alpha=5.0)},
    {"arguments": TrainerArguments(loss_type="dft")},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: str(next(iter(change.items()))))
def test_a_field_changes_what_is_learned_and_it_still_learns(
    change: dict[str, Any], straight: tuple[Path, Ended], tiny_model: Path, dataset: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    run(spec(tiny_model, dataset, output, **change), tmp_path)
    assert not same_weights(output, straight[0])
    found = metrics(output)
    assert found["adapter_loss"] < found["base_loss"]
    # What is measured is the same, whatever is learned.
    assert found["base_loss"] == pytest.approx(metrics(straight[0])["base_loss"], rel=1e-2)
    assert {tensor.dtype for tensor in load_file(output / RESULT[0]).values()} == {torch.float32}


def test_gradient_checkpointing_changes_no_bit(
    straight: tuple[Path, Ended], tiny_model: Path, dataset: Path, tmp_path: Path
) -> None:
    run(spec(tiny_model, dataset, tmp_path / "out", gradient_checkpointing=True), tmp_path)
    assert same_weights(tmp_path / "out", straight[0])
    assert metrics(tmp_path / "out")["training_losses"] == metrics(straight[0])["training_losses"]


OPTIMIZERS = ["adamw_torch", "adamw_torch_fused", "adafactor", "sgd", "adagrad", "rmsprop"]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_job_with_any_optimizer_goes_on_after_a_kill(
    name: Any, tiny_model: Path, dataset: Path, tmp_path: Path
) -> None:
    change = {"epochs": 1, "arguments": TrainerArguments(optim=name)}
    run(spec(tiny_model, dataset, tmp_path / "straight", **change), tmp_path)
    job = spec(tiny_model, dataset, tmp_path / "out", **change)
    assert tune(job, tmp_path, die=("report", 4)).code == -signal.SIGKILL
    run(job, tmp_path, attempt=2)
    assert result(tmp_path / "out") == result(tmp_path / "straight")


def test_the_adapters_configuration_says_what_it_is(tiny_model: Path, dataset: Path, tmp_path: Path) -> None:
    lora = Lora(rank=4, alpha=8, dropout=0.1, rank_stabilized=True, target_modules=["all-linear"])
    run(spec(tiny_model, dataset, tmp_path / "out", epochs=1, lora=lora), tmp_path)
    found = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert (found["r"], found["lora_alpha"], found["lora_dropout"], found["use_rslora"]) == (4, 8, 0.1, True)
    assert {name.split(".")[-1] for name in found["target_modules"]} == {
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj",
    }  # fmt: skip
    with safe_open(tmp_path / "out" / RESULT[0], "pt") as stream:
        assert not any("lm_head" in name for name in stream.keys())  # noqa: SIM118 - no mapping


@pytest.mark.parametrize("keep_best", [True, False])
def test_the_best_adapter_is_the_result_where_it_is_kept(
    keep_best: bool, tiny_model: Path, dataset: Path, tmp_path: Path
) -> None:
    """At such a rate it learns first, and forgets then."""
    change = {"learning_rate": 0.5, "epochs": 1, "evaluation": Evaluation(steps=1, keep_best=keep_best)}
    ended = run(spec(tiny_model, dataset, tmp_path / "out", **change), tmp_path)
    found = metrics(tmp_path / "out")
    losses = dict(found["evaluations"])
    best = min(losses, key=lambda step: losses[step])
    assert best < found["steps"]
    assert found["best_step"] == (best if keep_best else None)
    assert found["adapter_loss"] == losses[best if keep_best else found["steps"]]
    assert ended.result is not None
    assert (f"(adapter of step {best})" in ended.result.message) is keep_best


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"arguments": TrainerArguments(router_aux_loss_coef=0.1)}, "router_aux_loss_coef"),
        ({"lora": Lora(target_modules=["lm_head"])}, "lm_head"),
    ],
)
def test_what_the_trainer_refuses_is_the_users_error(
    change: dict[str, Any], said: str, tiny_model: Path, dataset: Path, tmp_path: Path
) -> None:
    ended = tune(spec(tiny_model, dataset, tmp_path / "out", **change), tmp_path)
    assert ended.code == ExitCode.USER_ERROR
    assert ended.result is not None
    assert ended.result.reason == "SpecInvalid"
    assert said in ended.result.message
    assert not list((tmp_path / "out").iterdir())

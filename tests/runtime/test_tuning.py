"""Fine-tuning: it learns, and being killed changes nothing."""

import json
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from runtime.tuning_runs import Ended, spec, tune
from safetensors.torch import load_file
from typing_extensions import override

from rowen.crds.job.worker import ExitCode, Location
from rowen.runtime.failure import WorkerError
from rowen.runtime.fence import Fence
from rowen.runtime.native import NoTenant
from rowen.runtime.tuning.results.folder import FolderResults
from rowen.runtime.tuning.tuner import Tuner
from rowen.runtime.worker import Progress

RESULT = ("adapter_model.safetensors", "adapter_config.json", "metrics.json")


def test_it_learns_and_says_so(straight: tuple[Path, Ended]) -> None:
    output, ended = straight
    assert ended.code == 0
    assert ended.result is not None
    assert (ended.result.reason, ended.result.completed, ended.result.total) == ("Completed", 12, 12)
    metrics = json.loads((output / "metrics.json").read_text())
    assert metrics["adapter_loss"] < metrics["base_loss"]
    assert f"{metrics['adapter_loss']:.4f}" in ended.result.message
    assert (metrics["training_rows"], metrics["held_out_rows"]) == (16, 4)
    assert {path.name for path in output.iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
        "metrics.json",
        "tensorboard",
    }


def test_killed_at_any_moment_it_ends_with_the_same_bytes(
    straight: tuple[Path, Ended], tiny_model: Path, dataset: Path, tmp_path: Path
) -> None:
    draw = random.Random(3)
    job = spec(tiny_model, dataset, tmp_path / "out")
    deaths = [("rename", draw.randint(2, 8)), ("report", draw.randint(3, 6)), ("report", draw.randint(3, 6))]
    for attempt, death in enumerate(deaths, start=1):
        assert tune(job, tmp_path, attempt=attempt, die=death).code == -signal.SIGKILL
    assert tune(job, tmp_path, attempt=9).code == 0
    for name in RESULT:
        assert (tmp_path / "out" / name).read_bytes() == (straight[0] / name).read_bytes(), name


def test_a_complete_job_is_not_run_again(
    straight: tuple[Path, Ended], tiny_model: Path, dataset: Path, tmp_path: Path
) -> None:
    output, first = straight
    before = (output / "adapter_model.safetensors").stat().st_mtime_ns
    again = tune(spec(tiny_model, dataset, output), tmp_path, attempt=2)
    assert again.code == 0
    assert again.result == first.result
    assert (output / "adapter_model.safetensors").stat().st_mtime_ns == before


def test_another_spec_starts_anew(tiny_model: Path, dataset: Path, tmp_path: Path) -> None:
    job = spec(tiny_model, dataset, tmp_path / "out")
    assert tune(job, tmp_path, die=("report", 6)).code == -signal.SIGKILL
    changed = tune(job.model_copy(update={"seed": 8, "epochs": 1}), tmp_path, attempt=2)
    assert changed.result is not None
    assert (changed.result.reason, changed.result.completed) == ("Completed", 4)


def test_without_its_metrics_a_job_is_run_anew(
    straight: tuple[Path, Ended], tiny_model: Path, dataset: Path, tmp_path: Path
) -> None:
    shutil.copytree(straight[0], tmp_path / "out")
    (tmp_path / "out" / "metrics.json").unlink()
    assert tune(spec(tiny_model, dataset, tmp_path / "out"), tmp_path).code == 0
    for name in RESULT:
        assert (tmp_path / "out" / name).read_bytes() == (straight[0] / name).read_bytes(), name


@pytest.mark.parametrize("name", ["adapter_model.safetensors", "adapter_config.json"])
def test_without_a_file_of_its_adapter_a_job_is_run_anew(
    name: str, straight: tuple[Path, Ended], tiny_model: Path, dataset: Path, tmp_path: Path
) -> None:
    shutil.copytree(straight[0], tmp_path / "out")
    (tmp_path / "out" / name).unlink()
    assert tune(spec(tiny_model, dataset, tmp_path / "out"), tmp_path).code == 0
    assert (tmp_path / "out" / name).read_bytes() == (straight[0] / name).read_bytes()


def test_who_has_lost_a_complete_output_leaves_it_alone(
    straight: tuple[Path, Ended], tiny_model: Path, dataset: Path, tmp_path: Path
) -> None:
    shutil.copytree(straight[0], tmp_path / "out")
    results = FolderResults(tmp_path / "out", tiny_model, 1)
    (tmp_path / "out" / "checkpoint.safetensors").write_text("another's")
    Fence(tmp_path / "out" / ".rowen-owner", 2)
    job = spec(tiny_model, dataset, tmp_path / "out")
    tuner = Tuner(job, tiny_model, dataset, results, Progress("steps", NoTenant()))
    with pytest.raises(WorkerError) as caught:
        tuner.run()
    assert caught.value.reason == "Superseded"
    assert (tmp_path / "out" / "checkpoint.safetensors").exists()


class Overtaken(NoTenant):
    """A newer attempt takes the output after the third step."""

    def __init__(self, take: Callable[[], object]) -> None:
        self._take = take

    @override
    def progress(self, completed: int, total: int, tokens: int) -> None:
        if completed == 3:
            self._take()


def test_who_loses_the_output_while_it_trains_ends_at_its_next_commit(
    straight: tuple[Path, Ended], tiny_model: Path, dataset: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    job = spec(tiny_model, dataset, output)
    results = FolderResults(output, tiny_model, 1)
    seen: list[bytes] = []

    def take() -> None:
        FolderResults(output, tiny_model, 2)
        seen.append((output / "checkpoint.safetensors").read_bytes())

    tuner = Tuner(job, tiny_model, dataset, results, Progress("steps", Overtaken(take)))
    with pytest.raises(WorkerError) as caught:
        tuner.run()
    assert (caught.value.reason, caught.value.code) == ("Superseded", ExitCode.RETRY)
    assert [(output / "checkpoint.safetensors").read_bytes()] == seen
    assert tune(job, tmp_path, attempt=2).code == 0
    assert all((output / name).read_bytes() == (straight[0] / name).read_bytes() for name in RESULT)


@pytest.mark.parametrize("header", [b"", b'{"__metadata__": {"rowen": "{"}}'], ids=["none", "state that is no JSON"])
def test_a_damaged_checkpoint_costs_its_steps_only(
    header: bytes, tiny_model: Path, dataset: Path, tmp_path: Path
) -> None:
    job = spec(tiny_model, dataset, tmp_path / "out", epochs=1)
    assert tune(job, tmp_path, die=("report", 5)).code == -signal.SIGKILL
    (tmp_path / "out" / "checkpoint.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    ended = tune(job, tmp_path, attempt=2)
    assert ended.result is not None
    assert (ended.result.reason, ended.result.completed) == ("Completed", 4)


def _change_a_weight(model: Path) -> None:
    with (model / "model.safetensors").open("r+b") as stream:
        stream.seek(-2, 2)
        stream.write(b"\x01\x3c")


def test_a_checkpoint_on_another_model_is_not_gone_on_with(tiny_model: Path, dataset: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_model, tmp_path / "model")
    job = spec(tmp_path / "model", dataset, tmp_path / "out", epochs=1)
    assert tune(job, tmp_path, die=("report", 5)).code == -signal.SIGKILL
    assert (tmp_path / "out" / "checkpoint.safetensors").exists()
    _change_a_weight(tmp_path / "model")
    assert tune(job, tmp_path, attempt=2).code == 0
    fresh = job.model_copy(update={"output": Location(where=str(tmp_path / "fresh"))})
    assert tune(fresh, tmp_path, attempt=3).code == 0
    for name in ("adapter_model.safetensors", "metrics.json"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "fresh" / name).read_bytes(), name


def test_a_result_on_another_model_is_not_complete(tiny_model: Path, dataset: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_model, tmp_path / "model")
    job = spec(tmp_path / "model", dataset, tmp_path / "out", epochs=1)
    assert tune(job, tmp_path).code == 0
    before = json.loads((tmp_path / "out" / "metrics.json").read_text())
    _change_a_weight(tmp_path / "model")
    assert tune(job, tmp_path, attempt=2).code == 0
    after = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert after["digest"] != before["digest"]
    assert after["base_loss"] != before["base_loss"]


BEFORE_A_CHECKPOINT = [("rename", 2), ("rename", 3)]


@pytest.mark.parametrize(
    "death",
    [("rename", 2), ("rename", 3), ("rename", 6), ("rename", 7), ("rename", 8), ("removal", 1)],
    ids=["events", "checkpoint", "weights", "configuration", "metrics", "removal of the checkpoint"],
)
def test_another_jobs_result_is_replaced_whatever_happens(
    death: tuple[str, int], straight: tuple[Path, Ended], tiny_model: Path, dataset: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    shutil.copytree(straight[0], output)
    old = {name: (output / name).read_bytes() for name in RESULT}
    job = spec(tiny_model, dataset, output, epochs=1)
    # The owner file, two times events and a checkpoint, the adapter's weights and its configuration, the metrics.
    assert tune(job, tmp_path, die=death).code == -signal.SIGKILL
    assert (output / "checkpoint.safetensors").exists() is (death not in BEFORE_A_CHECKPOINT)
    if death in BEFORE_A_CHECKPOINT:
        assert {name: (output / name).read_bytes() for name in old} == old
    else:
        assert (output / "metrics.json").exists() is (death == ("removal", 1))
    assert tune(job, tmp_path, attempt=2).code == 0
    assert {path.name for path in output.iterdir()} == {*old, "tensorboard"}
    assert json.loads((output / "metrics.json").read_text())["steps"] == 4


def test_rows_that_are_cut_are_reported(tiny_model: Path, dataset: Path, tmp_path: Path) -> None:
    ended = tune(spec(tiny_model, dataset, tmp_path / "out", epochs=1, sequence_length=24), tmp_path)
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    kept = metrics["training_rows"] + metrics["held_out_rows"]
    assert 0 < metrics["cut_rows"] <= kept
    assert kept + metrics["dropped_rows"] == 20
    assert ended.result is not None
    assert f"; {metrics['cut_rows']} rows were cut" in ended.result.message
    assert ended.result.message.endswith(": raise sequenceLength")


def test_the_adapter_loads_in_peft(straight: tuple[Path, Ended], tiny_model: Path) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    tokens = torch.arange(10, 30).unsqueeze(0)
    plain = base(tokens).logits
    adapted = PeftModel.from_pretrained(base, straight[0])(tokens).logits
    assert not torch.equal(plain, adapted)


def test_malformed_rows_that_are_left_out_change_nothing_and_are_told(
    straight: tuple[Path, Ended], tiny_model: Path, dataset: Path, tmp_path: Path
) -> None:
    rows = dataset.read_text().splitlines()
    mixed = tmp_path / "mixed.jsonl"
    mixed.write_text("\n".join([*rows[:2], '{"text": ', *rows[2:], "[1]"]) + "\n")
    ended = tune(spec(tiny_model, mixed, tmp_path / "out", malformed_rows="Skip"), tmp_path)
    assert ended.result is not None
    assert ended.result.reason == "Completed"
    last = len(rows) + 2
    told = ended.result.message.partition("; 2 malformed rows were left out: ")[2]
    assert [part.partition(": ")[0] for part in told.split("; ")] == [f"{mixed}:3", f"{mixed}:{last}"]
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["skipped_rows"] == 2
    learned, same = (load_file(folder / "adapter_model.safetensors") for folder in (tmp_path / "out", straight[0]))
    assert learned.keys() == same.keys()
    assert all(torch.equal(learned[name], same[name]) for name in same)

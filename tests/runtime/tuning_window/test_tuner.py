"""The tuner in little memory."""

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from gate.rig import until
from memory.local_arena import LocalArena
from runtime.tuning_runs import spec
from runtime.tuning_window.models import layers
from safetensors.torch import load_file, save_file
from structlog.testing import capture_logs

from rowen.crds.job.fine_tune import Evaluation, Lora
from rowen.crds.job.trainer_arguments import TrainerArguments
from rowen.crds.job.worker import ExitCode
from rowen.runtime.failure import WorkerError
from rowen.runtime.memory import shortage
from rowen.runtime.memory.part import PoolPart
from rowen.runtime.native import NoTenant
from rowen.runtime.tuning.adapter import load_base
from rowen.runtime.tuning.results.folder import FolderResults
from rowen.runtime.tuning.tuner import Tuner
from rowen.runtime.worker import Progress

HANDLE_BYTES = 16384


def run(model: Path, dataset: Path, output: Path, part: PoolPart | None, **changes: Any) -> dict[str, bytes]:
    output.mkdir()
    job = spec(model, dataset, output, **changes)
    results = FolderResults(output, model, 1)
    Tuner(job, model, dataset, results, Progress("steps", NoTenant()), part).run()
    return {path.name: path.read_bytes() for path in output.iterdir() if path.is_file()}


def test_it_ends_with_the_same_bytes(tiny_model: Path, dataset: Path, tmp_path: Path) -> None:
    arena = LocalArena(64, HANDLE_BYTES, 12)
    found = run(tiny_model, dataset, tmp_path / "window", PoolPart(arena, 64))
    assert found == run(tiny_model, dataset, tmp_path / "plain", None)
    assert found.keys() == {"adapter_config.json", "adapter_model.safetensors", "metrics.json"}
    assert arena.mapped == set()
    assert 0 < arena.grant < 64


@pytest.mark.parametrize(
    "changes",
    [
        {"packing": True, "sequence_length": 128, "batch_size": 2},
        {"lora": Lora(rank=4, alpha=8, dropout=0.2, target_modules=["all-linear"]), "gradient_accumulation": 2},
        {"precision": "BFloat16"},
        {"gradient_checkpointing": True},
        {"evaluation": Evaluation(steps=1), "arguments": TrainerArguments(label_smoothing_factor=0.1)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_however_it_learns(changes: dict[str, Any], tiny_model: Path, dataset: Path, tmp_path: Path) -> None:
    part = PoolPart(LocalArena(64, HANDLE_BYTES, 12), 64)
    found = run(tiny_model, dataset, tmp_path / "window", part, epochs=1, **changes)
    assert found == run(tiny_model, dataset, tmp_path / "plain", None, epochs=1, **changes)


@pytest.mark.parametrize(
    ("capacity", "handles", "reason", "said"),
    [
        (20, 8, "MemoryTooSmall", "a layer takes .* memoryLimit leaves 128Ki .*: raise memoryLimit"),
        (3, 3, "ModelUnsuitable", "the layers' weights take .* the arena has 3: leave memoryLimit out"),
    ],
)
def test_a_model_that_fits_no_window_is_refused_with_numbers(
    capacity: int, handles: int, reason: str, said: str, tiny_model: Path, dataset: Path, tmp_path: Path
) -> None:
    with pytest.raises(WorkerError, match=said) as caught:
        run(tiny_model, dataset, tmp_path / "out", PoolPart(LocalArena(capacity, HANDLE_BYTES), handles))
    assert (caught.value.reason, caught.value.code) == (reason, ExitCode.USER_ERROR)


def test_a_job_without_room_for_a_layer_waits_and_says_with_how_much(
    tiny_model: Path, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shortage, "GRACE_SECONDS", 0.0)
    arena = LocalArena(64, HANDLE_BYTES, 3)
    with capture_logs() as logs, ThreadPoolExecutor(1) as pool:
        job = pool.submit(run, tiny_model, dataset, tmp_path / "out", PoolPart(arena, 64))
        until(lambda: job.done() or bool(warnings(logs)), "the job says that it waits")
        arena.set_grant(64)
        assert "metrics.json" in job.result(120)
    [said] = warnings(logs)
    assert said["handles_granted"] == 3 < said["handles_needed"] < 20
    assert said["handle_bytes"] == HANDLE_BYTES


def warnings(logs: list[Any]) -> list[Any]:
    return [entry for entry in logs if entry["log_level"] == "warning"]


def test_where_the_device_has_less_than_memory_limit_leaves_that_is_what_is_said(
    tiny_model: Path, dataset: Path, tmp_path: Path
) -> None:
    part = PoolPart(LocalArena(20, HANDLE_BYTES), 8, asked_bytes=30 * HANDLE_BYTES)
    with pytest.raises(WorkerError, match="has 128Ki, although memoryLimit leaves 480Ki: take a device") as told:
        run(tiny_model, dataset, tmp_path / "out", part)
    assert (told.value.reason, told.value.code) == ("MemoryTooSmall", ExitCode.USER_ERROR)


def mapped_files() -> set[str]:
    return {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if ".safetensors" in line}


def test_frozen_weights_stay_in_their_file(tiny_model: Path) -> None:
    base = load_base(tiny_model, mapped=True)
    assert base.dtype == torch.bfloat16
    assert str(tiny_model / "model.safetensors") in mapped_files()
    assert not any(weight.requires_grad for weight in base.parameters())
    assert load_base(tiny_model).dtype == torch.float32


def copy_model(model: Path, folder: Path, changed: dict[str, torch.dtype]) -> Path:
    shutil.copytree(model, folder)
    weights = load_file(folder / "model.safetensors")
    types = {name: changed.get(name, changed.get("", tensor.dtype)) for name, tensor in weights.items()}
    new = {name: tensor.to(types[name]) for name, tensor in weights.items()}
    save_file(new, folder / "model.safetensors", {"format": "pt"})
    return folder


@pytest.mark.parametrize(
    ("changed", "dtype"),
    [
        ({"": torch.float16}, torch.float16),
        ({"": torch.float32}, torch.float32),
        ({"model.norm.weight": torch.float32}, torch.float32),
    ],
    ids=["half", "single", "two types"],
)
def test_the_type_is_that_of_all_weights(
    changed: dict[str, torch.dtype], dtype: torch.dtype, tiny_model: Path, tmp_path: Path
) -> None:
    base = load_base(copy_model(tiny_model, tmp_path / "model", changed), mapped=True)
    assert base.dtype == dtype
    expected = load_base(tmp_path / "model")
    for (name, tensor), (_, other) in zip(base.named_parameters(), expected.named_parameters(), strict=True):
        assert torch.equal(tensor.float(), other), name


def test_what_a_model_computes_itself_is_computed_in_float32(tiny_model: Path, monkeypatch: Any) -> None:
    from transformers.models.llama import modeling_llama

    made = modeling_llama.LlamaMLP.__init__

    def with_table(self: Any, config: Any) -> None:
        made(self, config)
        self.register_buffer("table", torch.ones(7), persistent=False)

    monkeypatch.setattr(modeling_llama.LlamaMLP, "__init__", with_table)
    base = load_base(tiny_model, mapped=True)
    assert base.dtype == layers(base)[0].mlp.table.dtype == torch.float32


THREADS = """
import json, os, sys
os.sched_setaffinity(0, set(json.loads(sys.argv[1])))
from rowen.runtime.native import NoTenant
from rowen.runtime.tuning import __main__ as entry
from rowen.runtime.worker import Progress
entry.tune(Progress("steps", NoTenant()))
import torch
print(torch.get_num_threads())
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one CPU")
@pytest.mark.parametrize("count", [1, 2])
def test_it_computes_with_all_cpus_that_it_has(
    count: int, straight: Any, tiny_model: Path, dataset: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    shutil.copytree(straight[0], output)
    cpus = sorted(os.sched_getaffinity(0))[:count]
    job = spec(tiny_model, dataset, output).model_dump_json()
    ended = subprocess.run(
        [sys.executable, "-c", THREADS, json.dumps(cpus)],
        env={**os.environ, "ROWEN_JOB_SPEC": job, "ROWEN_ATTEMPT": "2"},
        stdout=subprocess.PIPE,
        text=True,
        timeout=200,
        check=True,
    )
    assert ended.stdout.splitlines()[-1] == str(count)

"""Fine-tuning: it learns, and being killed changes nothing."""

import json
import random
import signal
from pathlib import Path

from runtime.tuning_runs import Ended, spec, tune


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
    }


def test_killed_at_any_moment_it_ends_with_the_same_bytes(
    straight: tuple[Path, Ended], tiny_model: Path, dataset: Path, tmp_path: Path
) -> None:
    draw = random.Random(3)
    job = spec(tiny_model, dataset, tmp_path / "out")
    deaths = [("rename", draw.randint(2, 4)), ("report", draw.randint(3, 6)), ("report", draw.randint(3, 6))]
    for attempt, death in enumerate(deaths, start=1):
        assert tune(job, tmp_path, attempt=attempt, die=death).code == -signal.SIGKILL
    assert tune(job, tmp_path, attempt=9).code == 0
    for name in ("adapter_model.safetensors", "adapter_config.json", "metrics.json"):
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


def test_the_adapter_loads_in_peft(straight: tuple[Path, Ended], tiny_model: Path) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    tokens = torch.arange(10, 30).unsqueeze(0)
    plain = base(tokens).logits
    adapted = PeftModel.from_pretrained(base, straight[0])(tokens).logits
    assert not torch.equal(plain, adapted)

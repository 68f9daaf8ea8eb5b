"""What a fine-tuning worker says when it cannot run."""

import errno
import os
from pathlib import Path

import pytest
from runtime.tuning_runs import spec

from rowen.crds.offline_job import Lora
from rowen.crds.worker import ExitCode, ModelLocation, TuningSpec
from rowen.demo.samples import dialogues, write_lines
from rowen.runtime.failure import WorkerError, failure_of
from rowen.runtime.native import NoTenant
from rowen.runtime.tuning.__main__ import tune
from rowen.runtime.worker import Progress


@pytest.fixture
def job(tiny_model: Path, tmp_path: Path) -> TuningSpec:
    write_lines(tmp_path / "data.jsonl", dialogues(8))
    return spec(tiny_model, tmp_path / "data.jsonl", tmp_path / "out", epochs=1)


def refusal(job: TuningSpec, monkeypatch: pytest.MonkeyPatch) -> WorkerError:
    monkeypatch.setenv("ROWEN_JOB_SPEC", job.model_dump_json())
    with pytest.raises(WorkerError) as caught:
        tune(Progress("steps", NoTenant()))
    return caught.value


def test_missing_model(job: TuningSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = job.model_copy(update={"base_model": ModelLocation(name_or_path="/volumes/none")})
    error = refusal(missing, monkeypatch)
    assert (error.reason, error.code) == ("ModelMissing", ExitCode.USER_ERROR)
    assert "/volumes/none" in error.message


def test_folder_without_model(job: TuningSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    empty = job.model_copy(update={"base_model": ModelLocation(name_or_path=str(tmp_path))})
    assert refusal(empty, monkeypatch).reason == "ModelMissing"


def test_missing_dataset(job: TuningSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    error = refusal(job.model_copy(update={"dataset_path": "/volumes/none.jsonl"}), monkeypatch)
    assert (error.reason, error.code) == ("DatasetMissing", ExitCode.USER_ERROR)


def test_malformed_rows_are_named_by_file_and_line(job: TuningSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ['{"text": "fine"}', "not json", "", '{"prompt": "only"}', '{"text": 3}', "[1]"]
    Path(job.dataset_path).write_text("\n".join(rows))
    error = refusal(job, monkeypatch)
    assert (error.reason, error.code) == ("DatasetMalformed", ExitCode.USER_ERROR)
    for line in (2, 4, 5, 6):
        assert f"{job.dataset_path}:{line}: " in error.message


def test_a_dataset_that_leaves_nothing_to_learn(job: TuningSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    error = refusal(job.model_copy(update={"sequence_length": 8}), monkeypatch)
    assert error.reason == "DatasetMalformed"
    assert "8 tokens" in error.message


def test_unknown_target_modules(job: TuningSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    error = refusal(job.model_copy(update={"lora": Lora(target_modules=["nonexistent"])}), monkeypatch)
    assert (error.reason, error.code) == ("SpecInvalid", ExitCode.USER_ERROR)
    assert "nonexistent" in error.message


def test_output_below_a_file(job: TuningSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    error = refusal(job.model_copy(update={"output_path": str(tmp_path / "data.jsonl" / "out")}), monkeypatch)
    assert (error.reason, error.code) == ("OutputUnwritable", ExitCode.USER_ERROR)


def test_full_disk_can_be_retried(job: TuningSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("ROWEN_JOB_SPEC", job.model_dump_json())
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space") as caught:
        tune(Progress("steps", NoTenant()))
    meaning = failure_of(caught.value)
    assert (meaning.reason, meaning.code) == ("DiskFull", ExitCode.RETRY)
    assert not list(Path(job.output_path).glob("*.part"))

"""What a fine-tuning worker says when it cannot run."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from runtime.tuning_runs import spec

from rowen.crds.job.fine_tune import Lora
from rowen.crds.job.worker import ExitCode, Location, ModelLocation, TuningSpec
from rowen.demo.samples import dialogues, write_lines
from rowen.runtime.failure import WorkerError, failure_of, input_failure
from rowen.runtime.native import NoTenant
from rowen.runtime.storage.store import Store
from rowen.runtime.tuning.__main__ import tune
from rowen.runtime.tuning.adapter import load_base, load_tokenizer
from rowen.runtime.tuning.results.folder import FolderResults
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
    error = refusal(job.model_copy(update={"dataset": Location(where="/volumes/none.jsonl")}), monkeypatch)
    assert (error.reason, error.code) == ("DatasetMissing", ExitCode.USER_ERROR)


def test_malformed_rows_are_named_by_file_and_line(job: TuningSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ['{"text": "fine"}', "not json", "", '{"prompt": "only"}', '{"text": 3}', "[1]"]
    Path(job.dataset.where).write_text("\n".join(rows))
    error = refusal(job, monkeypatch)
    assert (error.reason, error.code) == ("DatasetMalformed", ExitCode.USER_ERROR)
    for line in (2, 4, 5, 6):
        assert f"{job.dataset.where}:{line}: " in error.message


def test_without_a_proper_row_there_is_nothing_to_leave_rows_out_of(
    job: TuningSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(job.dataset.where).write_text('not json\n{"text": 3}')
    error = refusal(job.model_copy(update={"malformed_rows": "Skip"}), monkeypatch)
    assert (error.reason, error.code) == ("DatasetMalformed", ExitCode.USER_ERROR)
    assert f"{job.dataset.where}:2: " in error.message


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[" * 5000, "nested too deeply"),
        ('{"text": "a\\ud800"}', "text holds half of a surrogate pair"),
        ('{"prompt": "a\\ude00\\ud83d", "completion": "b"}', "prompt holds half of a surrogate pair"),
    ],
)
def test_what_no_tokenizer_takes_is_named_by_file_and_line(
    line: str, said: str, job: TuningSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(job.dataset.where)
    path.write_text('{"text": "fine"}\n{"text": "\\ud83d\\ude00 a whole pair"}\n' + line)
    error = refusal(job, monkeypatch)
    assert (error.reason, error.code) == ("DatasetMalformed", ExitCode.USER_ERROR)
    assert error.message.startswith(f"{path}:3: {said}")


def test_the_users_error_is_told_whatever_becomes_of_the_output(
    job: TuningSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def give_up(_results: FolderResults) -> None:
        raise OSError(errno.EIO, "the volume is away")

    monkeypatch.setattr(FolderResults, "give_up", give_up)
    Path(job.dataset.where).write_text("[1]")
    assert refusal(job, monkeypatch).reason == "DatasetMalformed"


def test_of_a_folder_in_object_storage_what_holds_rows_is_copied(
    job: TuningSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = ["README.md", "a/rows.jsonl", "images/1.png", "rows.parquet"]
    copied: list[str] = []

    def download(_store: Store, name: str, file: Path) -> None:
        copied.append(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("[1]")

    monkeypatch.setattr(Store, "size", lambda _store: None)
    monkeypatch.setattr(Store, "sizes", lambda _store: dict.fromkeys(objects, 3))
    monkeypatch.setattr(Store, "download", download)
    assert refusal(job.model_copy(update={"dataset": Location(where="s3://data/support")}), monkeypatch).code
    assert copied == ["a/rows.jsonl", "rows.parquet"]


def test_a_dataset_that_leaves_nothing_to_learn(job: TuningSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    error = refusal(job.model_copy(update={"sequence_length": 8}), monkeypatch)
    assert error.reason == "DatasetMalformed"
    assert "8 tokens" in error.message


def test_unknown_target_modules(job: TuningSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    error = refusal(job.model_copy(update={"lora": Lora(target_modules=["nonexistent"])}), monkeypatch)
    assert (error.reason, error.code) == ("SpecInvalid", ExitCode.USER_ERROR)
    assert "nonexistent" in error.message


MISTAKES: list[tuple[str, dict[str, object]]] = [
    ("DatasetMalformed", {"sequence_length": 8}),
    ("SpecInvalid", {"lora": Lora(target_modules=["nonexistent"])}),
]


@pytest.mark.parametrize(("reason", "change"), MISTAKES)
def test_after_a_mistake_an_adapter_of_the_users_is_not_taken_for_rowens(
    reason: str, change: dict[str, object], job: TuningSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refusal(job.model_copy(update=change), monkeypatch).reason == reason
    output = Path(job.output.where)
    assert not list(output.iterdir())
    (output / "adapter_config.json").write_text("{}")
    assert refusal(job, monkeypatch).reason == "OutputUnwritable"
    assert (output / "adapter_config.json").read_text() == "{}"


@pytest.mark.parametrize("name", ["checkpoint.safetensors", "adapter_config.json"])
@pytest.mark.parametrize(("reason", "change"), MISTAKES)
def test_after_a_mistake_what_was_rowens_stays_so(
    reason: str, change: dict[str, object], name: str, job: TuningSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = Path(job.output.where)
    output.mkdir()
    (output / ".rowen-owner").write_text('{"job": "", "attempt": 1, "claim": "c"}')
    (output / name).write_text("{}")
    assert refusal(job.model_copy(update=change), monkeypatch).reason == reason
    assert {path.name for path in output.iterdir()} == {".rowen-owner", name}


def test_output_below_a_file(job: TuningSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    error = refusal(
        job.model_copy(update={"output": Location(where=str(tmp_path / "data.jsonl" / "out"))}), monkeypatch
    )
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
    assert not list(Path(job.output.where).glob("*.part"))


BROKEN = "/proc/self/mem"
"""A file that opens, and whose first byte is an input/output error."""


def broken(path: Path) -> None:
    path.unlink()
    path.symlink_to(BROKEN)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors", "data.jsonl"])
def test_a_disk_that_fails_is_tried_again(
    name: str, job: TuningSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.copytree(job.base_model.name_or_path, tmp_path / "model")
    job = job.model_copy(update={"base_model": ModelLocation(name_or_path=str(tmp_path / "model"))})
    path = tmp_path / name if name == "data.jsonl" else tmp_path / "model" / name
    broken(path)
    error = refusal(job, monkeypatch)
    assert (error.reason, error.code) == ("Failed", ExitCode.RETRY)
    assert str(path) in error.message
    assert (Path(job.output.where) / ".rowen-owner").exists()


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("tokenizer_config.json", load_tokenizer),
        ("model.safetensors", load_base),
    ],
)
def test_a_disk_that_fails_while_the_model_is_loaded_is_tried_again(
    name: str, load: Callable[[Path], object], tiny_model: Path, job: TuningSpec, tmp_path: Path
) -> None:
    shutil.copytree(tiny_model, tmp_path / "model")
    broken(tmp_path / "model" / name)
    with pytest.raises(WorkerError) as caught:
        load(tmp_path / "model")
    assert (caught.value.reason, caught.value.code) == ("Failed", ExitCode.RETRY)


@pytest.mark.parametrize(
    ("name", "content", "load"),
    [
        ("tokenizer.json", "[]", load_tokenizer),
        ("tokenizer.json", '{"model": {"type": "none"}, "added_tokens": []}', load_tokenizer),
        ("tokenizer_config.json", "[" * 5000, load_tokenizer),
        ("config.json", "1", load_base),
        ("config.json", '{"model_type": "llama", "hidden_size": "wide"}', load_base),
    ],
)
def test_a_model_that_is_damaged_is_the_users_error(
    name: str, content: str, load: Callable[[Path], object], job: TuningSpec, tmp_path: Path
) -> None:
    shutil.copytree(job.base_model.name_or_path, tmp_path / "model")
    (tmp_path / "model" / name).write_text(content)
    with pytest.raises(WorkerError, match=str(tmp_path / "model")) as caught:
        load(tmp_path / "model")
    assert (caught.value.reason, caught.value.code) == ("ModelMissing", ExitCode.USER_ERROR)


def test_a_model_without_all_its_weights_is_not_filled_with_noise(job: TuningSpec, tmp_path: Path) -> None:
    shutil.copytree(job.base_model.name_or_path, tmp_path / "model")
    config = json.loads((tmp_path / "model/config.json").read_text())
    layers = config["num_hidden_layers"]
    (tmp_path / "model/config.json").write_text(json.dumps(config | {"num_hidden_layers": layers + 1}))
    with pytest.raises(WorkerError, match=rf"lacks weights .*: model\.layers\.{layers}\..* and \d+ more") as caught:
        load_base(tmp_path / "model")
    assert (caught.value.reason, caught.value.code) == ("ModelMissing", ExitCode.USER_ERROR)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryError(), ExitCode.RETRY),
        (RuntimeError("DefaultCPUAllocator: you tried. Error code 12 (Cannot allocate memory)"), ExitCode.RETRY),
        (Exception("Input/output error (os error 5)"), ExitCode.RETRY),
        (Exception("No such file or directory (os error 2)"), ExitCode.USER_ERROR),
        (OSError(errno.EIO, "I/O"), ExitCode.RETRY),
        (OSError(errno.ENOENT, "none"), ExitCode.USER_ERROR),
        (KeyError("added_tokens"), ExitCode.USER_ERROR),
    ],
    ids=repr,
)
def test_what_says_nothing_of_the_file_is_tried_again(error: Exception, code: ExitCode) -> None:
    assert input_failure("ModelMissing", "m", error).code is code


@pytest.mark.parametrize("name", ["n" * 300, "data.jsonl/below", "loop"], ids=["too long", "below a file", "loop"])
def test_a_path_that_can_be_no_input_is_the_users_error(
    name: str, job: TuningSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    path = str(tmp_path / name)
    for change in ({"base_model": ModelLocation(name_or_path=path)}, {"dataset": Location(where=path)}):
        error = refusal(job.model_copy(update=change), monkeypatch)
        assert (error.reason, error.code) == (
            "DatasetMissing" if "dataset" in change else "ModelMissing",
            ExitCode.USER_ERROR,
        )
        assert path in error.message

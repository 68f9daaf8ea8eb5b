"""What a fine-tuning job does with what stands in its output folder."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from runtime.trees import tree
from runtime.tuning_runs import spec

from rowen.crds.worker import ExitCode
from rowen.runtime.failure import WorkerError, failure_of
from rowen.runtime.native import NoTenant
from rowen.runtime.tuning.__main__ import tune
from rowen.runtime.tuning.output import check_output
from rowen.runtime.worker import Progress

FORMER_METRICS = {
    "digest": "0" * 64, "steps": 1, "base_loss": None, "adapter_loss": None, "training_rows": 1, "held_out_rows": 0,
    "dropped_rows": 0, "training_losses": [1.0],
}  # fmt: skip

DEEP = 200_000
DEEP_HEADER = DEEP.to_bytes(8, "little") + b"[" * DEEP


def safetensors(metadata: dict[str, str]) -> bytes:
    """A file without tensors."""
    header = json.dumps({"__metadata__": metadata}).encode()
    return len(header).to_bytes(8, "little") + header


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A volume with a dataset, something that passes for a model until it is loaded, and an output folder."""
    (tmp_path / "data.jsonl").write_text('{"text": "a"}\n')
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "out").mkdir()
    return tmp_path


def refusal(volume: Path, monkeypatch: pytest.MonkeyPatch, output: str = "out") -> WorkerError:
    job = spec(volume / "model", volume / "data.jsonl", volume / output)
    monkeypatch.setenv("ROWEN_JOB_SPEC", job.model_dump_json())
    try:
        tune(Progress("steps", NoTenant()))
    except WorkerError as error:
        return error
    except OSError as error:
        return failure_of(error)
    pytest.fail("the job was done")


FOREIGN: list[tuple[str, str, Callable[[Path], object]]] = [
    ("an adapter's weights", "adapter_model.safetensors", lambda path: path.write_bytes(safetensors({"format": "pt"}))),
    ("an adapter's configuration", "adapter_config.json", lambda path: path.write_text("{}")),
    ("metrics of other things", "metrics.json", lambda path: path.write_text('{"accuracy": 1, "steps": 3}')),
    ("metrics that are no object", "metrics.json", lambda path: path.write_text("[1]")),
    ("metrics that are no JSON", "metrics.json", lambda path: path.write_text("accuracy 1")),
    ("weights", "checkpoint.safetensors", lambda path: path.write_bytes(safetensors({"format": "pt"}))),
    ("weights without metadata", "checkpoint.safetensors", lambda path: path.write_bytes(bytes([2, *[0] * 7]) + b"{}")),
    ("no weights", "checkpoint.safetensors", lambda path: path.write_bytes(b"torch")),
    ("a deep header", "checkpoint.safetensors", lambda path: path.write_bytes(DEEP_HEADER)),
    ("deep metrics", "metrics.json", lambda path: path.write_text("[" * DEEP)),
    ("an owner", ".rowen-owner", lambda path: path.write_text("me")),
    ("a link", "metrics.json", lambda path: path.symlink_to("../data.jsonl")),
    ("a linked adapter", "adapter_model.safetensors", lambda path: path.symlink_to("../data.jsonl")),
    ("a folder", "adapter_config.json", lambda path: path.mkdir()),
]


@pytest.mark.parametrize(("name", "make"), [case[1:] for case in FOREIGN], ids=[case[0] for case in FOREIGN])
def test_a_users_file_is_named_and_left_alone(
    name: str, make: Callable[[Path], object], volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(volume / "out" / name)
    before = tree(volume)
    error = refusal(volume, monkeypatch)
    assert (error.reason, error.code) == ("OutputUnwritable", ExitCode.USER_ERROR)
    assert str(volume / "out" / name) in error.message
    assert tree(volume) == before


def _link(volume: Path, target: str) -> None:
    (volume / "link").symlink_to(target)


PLACES: list[tuple[str, str, Callable[[Path], object]]] = [
    ("the model", "model", lambda volume: None),
    ("the model by a link", "link", lambda volume: _link(volume, "model")),
    ("the dataset", "data.jsonl", lambda volume: None),
    ("the dataset by a link", "link", lambda volume: _link(volume, "data.jsonl")),
    ("a link to nothing", "link", lambda volume: _link(volume, "nothing")),
]


@pytest.mark.parametrize(("output", "make"), [case[1:] for case in PLACES], ids=[case[0] for case in PLACES])
def test_a_place_that_cannot_be_the_output(
    output: str, make: Callable[[Path], object], volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(volume)
    before = tree(volume)
    error = refusal(volume, monkeypatch, output)
    assert (error.reason, error.code) == ("OutputUnwritable", ExitCode.USER_ERROR)
    assert str(volume / output) in error.message
    assert tree(volume) == before


MARKS = {
    "metrics.json": json.dumps(FORMER_METRICS).encode(),
    "checkpoint.safetensors": safetensors({"rowen": "{}"}),
}


@pytest.mark.parametrize("mark", MARKS)
def test_another_result_of_ours_may_be_replaced(mark: str, volume: Path) -> None:
    folder = volume / "out"
    (folder / mark).write_bytes(MARKS[mark])
    for name in ("adapter_model.safetensors", "adapter_config.json"):
        (folder / name).write_text("adapter")
    check_output(folder, volume / "model")


def test_a_mark_does_not_speak_for_a_file_that_is_plainly_not_ours(volume: Path) -> None:
    (volume / "out" / "metrics.json").write_bytes(MARKS["metrics.json"])
    (volume / "out" / "checkpoint.safetensors").write_text("mine")
    with pytest.raises(WorkerError, match=r"checkpoint\.safetensors was not written"):
        check_output(volume / "out", volume / "model")


@pytest.mark.parametrize("output", ["out", "new/out"])
def test_what_bears_other_names_is_in_nobodys_way(output: str, volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (volume / "out" / "notes.txt").write_text("mine")
    # The check has let the job pass: it ends at the model, which is none.
    assert refusal(volume, monkeypatch, output).reason == "ModelMissing"
    assert (volume / "out" / "notes.txt").read_text() == "mine"

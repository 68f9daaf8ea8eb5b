"""What a fine-tuning job does with what stands in its output folder."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from runtime.trees import tree
from runtime.tuning_runs import spec

from rowen.crds.job.worker import ExitCode
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
    "adapter_model.safetensors": safetensors({"format": "pt", "rowen": "0" * 64}),
    ".rowen-owner": b'{"job": "another", "attempt": 1, "claim": "c"}',
}
METRICS, CHECKPOINT, WEIGHTS, OWNER = MARKS
CONFIG = "adapter_config.json"
UNMARKED = {WEIGHTS: safetensors({"format": "pt"}), CONFIG: b"{}"}
"""The adapter of a former version, or somebody else's."""
NEW = {WEIGHTS: MARKS[WEIGHTS], CONFIG: b"{}"}


def marks(*names: str) -> dict[str, bytes]:
    return {name: MARKS[name] for name in names}


LEFT: list[tuple[str, dict[str, bytes]]] = [
    ("before the first checkpoint", marks(OWNER)),
    ("with a checkpoint", marks(OWNER, CHECKPOINT)),
    ("over a former result", UNMARKED | marks(OWNER, CHECKPOINT, METRICS)),
    ("by a former version, which removed the metrics first", UNMARKED | marks(OWNER)),
    ("between weights and configuration", marks(OWNER, CHECKPOINT, WEIGHTS)),
    ("between weights and a former configuration", NEW | marks(OWNER, CHECKPOINT)),
    ("before the checkpoint is removed", NEW | marks(OWNER, CHECKPOINT, METRICS)),
    ("before the owner is removed", NEW | marks(OWNER, METRICS)),
    ("complete", NEW | marks(METRICS)),
    ("complete, of a former version", UNMARKED | marks(METRICS)),
    ("complete, without metrics", NEW),
    ("complete, without metrics and configuration", marks(WEIGHTS)),
    ("complete, without weights", {CONFIG: b"{}"} | marks(METRICS)),
    ("weights alone, without the checkpoint", marks(OWNER, WEIGHTS)),
    ("weights of a former version, without the checkpoint", {WEIGHTS: UNMARKED[WEIGHTS]} | marks(OWNER)),
    ("without the owner", UNMARKED | marks(CHECKPOINT)),
    ("with a damaged checkpoint", marks(OWNER) | {CHECKPOINT: b"torch"}),
    ("with a checkpoint of zeros", NEW | marks(OWNER) | {CHECKPOINT: bytes(64)}),
    ("with damaged metrics", NEW | marks(OWNER) | {METRICS: bytes(64)}),
    ("with damaged weights", marks(METRICS) | {WEIGHTS: bytes(64)}),
]


@pytest.mark.parametrize("files", [case[1] for case in LEFT], ids=[case[0] for case in LEFT])
def test_what_a_job_left_may_be_replaced(
    files: dict[str, bytes], volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in files.items():
        (volume / "out" / name).write_bytes(content)
    # The check has let the job pass: it ends at the model, which is none.
    assert refusal(volume, monkeypatch).reason == "ModelMissing"


OTHERS: list[tuple[str, str, dict[str, bytes]]] = [
    ("an adapter", CONFIG, UNMARKED),
    ("an adapter beside damaged metrics", METRICS, UNMARKED | {METRICS: b"accuracy 1"}),
    ("an adapter with damaged weights", CONFIG, {CONFIG: b"{}", WEIGHTS: bytes(64)}),
    ("weights beside a checkpoint", CHECKPOINT, NEW | {CHECKPOINT: UNMARKED[WEIGHTS]}),
    ("weights in the place of an owned checkpoint", CHECKPOINT, marks(OWNER) | {CHECKPOINT: UNMARKED[WEIGHTS]}),
    ("metrics in an owned folder", METRICS, marks(OWNER) | {METRICS: b"[1]"}),
    ("a damaged checkpoint beside an adapter of ours", CHECKPOINT, NEW | {CHECKPOINT: b"torch"}),
]


@pytest.mark.parametrize(("named", "files"), [case[1:] for case in OTHERS], ids=[case[0] for case in OTHERS])
def test_what_is_not_known_to_be_a_jobs_is_not_replaced(
    named: str, files: dict[str, bytes], volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in files.items():
        (volume / "out" / name).write_bytes(content)
    before = tree(volume)
    error = refusal(volume, monkeypatch)
    assert error.message.startswith(f"{volume / 'out' / named} is not known to be a result of this job; move it away")
    assert (error.reason, error.code) == ("OutputUnwritable", ExitCode.USER_ERROR)
    assert tree(volume) == before


def test_a_mark_does_not_speak_for_a_file_that_is_plainly_not_ours(volume: Path) -> None:
    (volume / "out" / "metrics.json").write_bytes(MARKS["metrics.json"])
    (volume / "out" / "checkpoint.safetensors").write_text("mine")
    with pytest.raises(
        WorkerError, match=r"checkpoint\.safetensors is not known to be a result of this job; move it away"
    ):
        check_output(volume / "out", volume / "model")


@pytest.mark.parametrize("output", ["out", "new/out"])
def test_what_bears_other_names_is_in_nobodys_way(output: str, volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (volume / "out" / "notes.txt").write_text("mine")
    # The check has let the job pass: it ends at the model, which is none.
    assert refusal(volume, monkeypatch, output).reason == "ModelMissing"
    assert (volume / "out" / "notes.txt").read_text() == "mine"

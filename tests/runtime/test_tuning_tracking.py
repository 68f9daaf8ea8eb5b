"""Weights & Biases, without a server: in offline mode, and with one that is not there."""

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gate.rig import until
from runtime.tuning_runs import spec
from wandb.proto.wandb_internal_pb2 import Record

from rowen.crds.job.fine_tune import WeightsAndBiases
from rowen.crds.job.worker import ExitCode
from rowen.runtime.failure import WorkerError
from rowen.runtime.tuning.adapter import add_adapter, load_base, load_tokenizer
from rowen.runtime.tuning.data.dataset import read_data
from rowen.runtime.tuning.training import tracking
from rowen.runtime.tuning.training.settings import trainer_settings
from rowen.runtime.tuning.training.tracking import weights_and_biases
from rowen.runtime.tuning.training.trainer import Trainer

KEY = "0123456789abcdef" * 3
WANTED = WeightsAndBiases(project="support", secret_name="wandb")
DIGEST = "d" * 64


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "secrets" / "wandb"
    folder.mkdir(parents=True)
    (folder / "WANDB_API_KEY").write_text(KEY + "\n")
    monkeypatch.setattr(tracking, "SECRETS_DIRECTORY", str(tmp_path / "secrets"))
    return folder


def test_a_run_is_shown_under_the_jobs_name(
    secret: Path, tiny_model: Path, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    (tmp_path / "scratch").mkdir()
    job = spec(tiny_model, dataset, tmp_path, epochs=1)
    tokenizer = load_tokenizer(tiny_model)
    data = read_data(job, dataset, tokenizer)
    model = add_adapter(load_base(tiny_model), job)
    settings = trainer_settings(job, tmp_path / "scratch", 4, recomputes=False)
    with weights_and_biases(WANTED, "support-lora", DIGEST, tmp_path / "scratch") as callbacks:
        Trainer(model, settings, data, tokenizer, callbacks, packed=False, first_step=0).train()
    [run] = (tmp_path / "scratch/wandb").glob(f"offline-run-*-{DIGEST[:32]}/*.wandb")
    for name in (b"support-lora", b"train/loss", b"train/learning_rate"):
        # The library's helper, a process of its own, writes what it has been told later than it says that it is done.
        until(lambda name=name: name in run.read_bytes(), f"{name.decode()} is in the file")
    files = [path for path in (tmp_path / "scratch").rglob("*") if path.is_file()]
    assert not any(KEY.encode() in path.read_bytes() for path in files)
    assert KEY not in "".join(capfd.readouterr())


def records(data: bytes) -> Iterator[Record]:
    """What goes to the server, from a short file: a header, and before each record its checksum, length and kind."""
    at = 7
    while at + 7 <= len(data):
        _, length, kind = struct.unpack_from("<IHB", data, at)
        assert kind == 1, "a record in pieces"
        at += 7 + length
        if at > len(data):
            return  # it is being written
        yield Record.FromString(data[at - length : at])


def exit_code(scratch: Path) -> tuple[str, int]:
    """Run and exit code of an attempt."""
    [path] = scratch.glob("wandb/offline-run-*/*.wandb")
    until(lambda: any(record.HasField("exit") for record in records(path.read_bytes())), "the run's end is in the file")
    found = list(records(path.read_bytes()))
    [name] = {record.run.run_id for record in found if record.HasField("run")}
    [code] = [record.exit.exit_code for record in found if record.HasField("exit")]
    return name, code


def test_a_failed_attempt_is_shown_as_failed_and_the_next_goes_on_in_its_run(
    secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    with pytest.raises(OSError, match="disk"), weights_and_biases(WANTED, "job", DIGEST, tmp_path / "first"):
        raise OSError("disk")
    with weights_and_biases(WANTED, "job", DIGEST, tmp_path / "second"):
        pass
    assert exit_code(tmp_path / "first") == (DIGEST[:32], 1)
    assert exit_code(tmp_path / "second") == (DIGEST[:32], 0)


class Broken:
    """A run whose helper has died."""

    def finish(self, exit_code: int) -> None:
        raise ConnectionResetError("the helper has died")


@pytest.mark.parametrize("failure", [None, WorkerError("DiskFull", "no space left")])
def test_a_run_that_cannot_be_completed_changes_nothing_for_the_job(
    failure: WorkerError | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracking, "_started", lambda *_: Broken())
    told = None
    try:
        with weights_and_biases(WANTED, "job", DIGEST, tmp_path):
            if failure is not None:
                raise failure
    except WorkerError as error:
        told = error
    assert told is failure


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [("WANDB_API_KEY", None, "wandb has no WANDB_API_KEY"), ("WANDB_BASE_URL", KEY, "of wandb is no URL")],
)
def test_a_secret_that_is_wrong_is_named_and_not_told(
    name: str, content: str | None, said: str, secret: Path, tmp_path: Path
) -> None:
    (secret / name).unlink(missing_ok=True)
    if content is not None:
        (secret / name).write_text(content)
    with (
        pytest.raises(WorkerError, match=f"weightsAndBiases.secretName: .*{said}") as told,
        weights_and_biases(WANTED, "job", DIGEST, tmp_path),
    ):
        pass
    assert (told.value.reason, told.value.code) == ("SpecInvalid", ExitCode.USER_ERROR)
    assert KEY not in told.value.message


AWAY = """
import sys
from pathlib import Path
from rowen.crds.job.fine_tune import WeightsAndBiases
from rowen.runtime.tuning.training import tracking
tracking.SECRETS_DIRECTORY, tracking._START_SECONDS = sys.argv[1], 3.0
wanted = WeightsAndBiases(project="support", secret_name="wandb")
with tracking.weights_and_biases(wanted, "job", "d" * 64, Path(sys.argv[2])) as callbacks:
    print("callbacks:", callbacks)
"""


def test_without_the_server_the_job_goes_on(secret: Path, tmp_path: Path) -> None:
    (secret / "WANDB_BASE_URL").write_text("http://127.0.0.1:9")
    ended = subprocess.run(
        [sys.executable, "-c", AWAY, str(secret.parent), str(tmp_path)],
        env={name: value for name, value in os.environ.items() if not name.startswith("WANDB_")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=200,
        check=True,
    )
    assert "callbacks: []" in ended.stdout
    assert "does not take the run: nothing is shown there" in ended.stdout
    assert KEY not in ended.stdout

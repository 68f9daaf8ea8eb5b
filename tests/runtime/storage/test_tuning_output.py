"""Checkpoints and results of fine-tuning in object storage: whole, the newest attempt's, and nobody else's."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest
from runtime.storage.killed import WRITES, run_killed
from runtime.tuning_runs import Ended, spec
from s3 import S3Server
from safetensors.numpy import load, save

from rowen.crds.job.worker import ExitCode, Location, TuningSpec
from rowen.crds.names import ATTEMPT_ENV, JOB_SPEC_ENV, JOB_UID_ENV
from rowen.runtime.failure import WorkerError
from rowen.runtime.storage import store
from rowen.runtime.storage.log import Entry, Log
from rowen.runtime.tuning.metrics import Metrics
from rowen.runtime.tuning.results.store import StoreResults

DIGEST, OTHER = "a" * 64, "b" * 64
ADAPTER = {"adapter_model.safetensors": save({}, {"rowen": DIGEST}), "adapter_config.json": b"{}"}
EVENTS = "tensorboard/events.out.tfevents.0000000000.rowen-aaaaaaaaaaaaaaaa"
WHOLE = ["adapter_config.json", "adapter_model.safetensors", "metrics.json"]


def metrics(digest: str = DIGEST) -> Metrics:
    return Metrics(digest, 4, None, None, 8, 0, 0, 0, [1.0], [], None)


class Place:
    def __init__(self, server: S3Server, folder: str) -> None:
        self._server, self.folder = server, folder

    @property
    def location(self) -> Location:
        return Location(where=f"s3://{self.folder}", secret_name="team-data")

    def open(self, attempt: int) -> StoreResults:
        return StoreResults(self.location, attempt)

    def put(self, name: str, data: bytes) -> None:
        self._server.filesystem().pipe_file(f"{self.folder}/{name}", data)

    def get(self, name: str) -> bytes:
        data: bytes = self._server.filesystem().cat_file(f"{self.folder}/{name}")
        return data

    def names(self) -> list[str]:
        return sorted(path.removeprefix(f"{self.folder}/") for path in self._server.filesystem().find(self.folder))


@pytest.fixture
def place(s3_server: S3Server, bucket: str, secrets: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv(JOB_UID_ENV, "job-1")
    monkeypatch.setattr(store, "_PAUSES_SECONDS", (0.01,))
    return Place(s3_server, f"{bucket}/adapters/support")


def run(place: Place, attempt: int) -> None:
    """A job of two checkpoints."""
    results = place.open(attempt)
    if results.finished(DIGEST) is not None:
        return
    done = int(results.checkpoint() or b"0")
    for step in range(done + 1, 3):
        results.commit(b"%d" % step, DIGEST, done, b"events")
    results.finish(ADAPTER, metrics())


def whole(place: Place) -> None:
    assert [name for name in place.names() if not name.startswith("tensorboard/")] == WHOLE
    assert {name: place.get(name) for name in ADAPTER} == ADAPTER
    assert json.loads(place.get("metrics.json")) == asdict(metrics())


def superseded(caught: pytest.ExceptionInfo[WorkerError]) -> bool:
    return (caught.value.reason, caught.value.code) == ("Superseded", ExitCode.RETRY)


def test_a_job_leaves_its_result_and_its_events(place: Place) -> None:
    run(place, 1)
    whole(place)
    assert place.get(EVENTS) == b"events"
    assert place.open(2).finished(DIGEST) == metrics()
    whole(place)


def test_the_newest_checkpoint_is_gone_on_from(place: Place) -> None:
    results = place.open(1)
    assert results.finished(DIGEST) is None
    results.commit(b"1", DIGEST, 0, b"")
    results.commit(b"2", DIGEST, 0, b"")
    assert [name for name in place.names() if name.startswith("checkpoints/")] == ["checkpoints/00000003"]
    place.open(2)
    later = place.open(3)
    assert later.checkpoint() == b"2"
    later.commit(b"3", DIGEST, 2, b"")
    assert [name for name in place.names() if name.startswith("checkpoints/")] == ["checkpoints/00000006"]


def test_a_checkpoint_is_not_kept_once_it_is_given(place: Place) -> None:
    place.open(1).commit(b"weights", DIGEST, 0, b"")
    results = place.open(2)
    checkpoint = results.checkpoint()
    assert checkpoint == b"weights"
    # This name's, and the call's own.
    assert sys.getrefcount(checkpoint) == 2
    results.give_up()
    assert place.open(3).checkpoint() == b"weights"


def test_killed_before_any_write_the_result_is_whole(place: Place) -> None:
    number, folder = 1, place.folder
    while True:
        place.folder = f"{folder}-{number}"
        killed = run_killed(lambda: run(place, 1), WRITES, number)
        run(place, 2)
        whole(place)
        if not killed:
            break
        number += 1
    assert number > 12


def test_an_older_attempt_commits_nothing_more(place: Place) -> None:
    older = place.open(1)
    older.commit(b"1", DIGEST, 0, b"old")
    newer = place.open(2)
    with pytest.raises(WorkerError) as caught:
        older.commit(b"2", DIGEST, 0, b"older still")
    assert superseded(caught)
    newer.commit(b"2", DIGEST, 1, b"new")
    newer.commit(b"3", DIGEST, 1, b"new")
    # Its number is free again, and it is known all the same.
    before = place.names()
    for work in (lambda: older.commit(b"2", DIGEST, 0, b"older still"), lambda: older.finish(ADAPTER, metrics())):
        with pytest.raises(WorkerError) as caught:
            work()
        assert superseded(caught)
    assert place.names() == before
    assert place.get(EVENTS) == b"old"


def test_what_an_older_attempt_commits_while_a_newer_one_reads_is_gone_on_from(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = place.open(1)
    older.commit(b"1", DIGEST, 0, b"")
    read = Log.read

    def overtaken(log: Log, number: int) -> Entry | None:
        monkeypatch.setattr(Log, "read", read)
        older.commit(b"2", DIGEST, 0, b"")
        return read(log, number)

    monkeypatch.setattr(Log, "read", overtaken)
    assert place.open(2).checkpoint() == b"2"
    with pytest.raises(WorkerError) as caught:
        older.commit(b"3", DIGEST, 0, b"")
    assert superseded(caught)


def test_an_older_attempt_that_wakes_after_the_end_leaves_nothing(place: Place) -> None:
    older = place.open(1)
    older.commit(b"1", DIGEST, 0, b"")
    run(place, 2)
    with pytest.raises(WorkerError) as caught:
        older.finish({**ADAPTER, "adapter_config.json": b"other"}, metrics())
    assert superseded(caught)
    whole(place)


def test_an_older_attempt_that_starts_late_is_refused(place: Place) -> None:
    place.open(2).commit(b"1", DIGEST, 0, b"")
    with pytest.raises(WorkerError) as caught:
        place.open(1)
    assert superseded(caught)


def test_another_jobs_result_and_events_are_replaced(place: Place) -> None:
    run(place, 1)
    results = place.open(2)
    assert results.finished(OTHER) is None
    results.commit(b"1", OTHER, 0, b"new")
    assert EVENTS not in place.names()
    results.finish({**ADAPTER, "adapter_config.json": b'{"new": 1}'}, metrics(OTHER))
    assert place.get("adapter_config.json") == b'{"new": 1}'
    assert place.open(3).finished(OTHER) == metrics(OTHER)


def test_another_jobs_result_that_was_not_copied_is_not_taken_for_this_ones(place: Place) -> None:
    assert run_killed(lambda: run(place, 1), ["delete_object"], 3)
    assert place.open(2).finished(OTHER) is None


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("metrics.json", b'{"accuracy": 1}'),
        ("metrics.json", b"damaged"),
        ("adapter_config.json", b"{}"),
        ("adapter_model.safetensors", save({}, {"format": "pt"})),
        ("checkpoints/00000001", b"mine"),
        ("checkpoints/last.bin", b"mine"),
    ],
)
def test_what_others_have_put_there_is_left_alone(name: str, data: bytes, place: Place) -> None:
    place.put(name, data)
    with pytest.raises(WorkerError, match=f"s3://{place.folder}/{name}") as caught:
        place.open(1)
    assert (caught.value.reason, caught.value.code) == ("OutputUnwritable", ExitCode.USER_ERROR)
    assert place.names() == [name]


def test_a_job_that_gives_up_leaves_nothing(place: Place) -> None:
    place.open(1).give_up()
    assert place.names() == []
    results = place.open(2)
    results.commit(b"1", DIGEST, 0, b"")
    place.open(3).give_up()
    assert place.open(4).checkpoint() == b"1"


def environment(server: S3Server, job: TuningSpec, attempt: int) -> dict[str, str]:
    identity = {
        "AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key,
        "AWS_ENDPOINT_URL": server.endpoint, "AWS_REGION": "us-east-1",
    }  # fmt: skip
    return {**os.environ, **identity, JOB_SPEC_ENV: job.model_dump_json(by_alias=True), ATTEMPT_ENV: str(attempt)}


@pytest.mark.timeout(900)  # two workers with torch, on a machine that may be busy
def test_a_worker_killed_and_resumed_learns_the_same(
    place: Place, s3_server: S3Server, bucket: str, straight: tuple[Path, Ended], tiny_model: Path, dataset: Path
) -> None:
    s3_server.filesystem().put_file(str(dataset), f"{bucket}/{dataset.name}")
    job = spec(tiny_model, dataset, Path("out")).model_copy(
        update={
            "dataset": Location(where=f"s3://{bucket}/{dataset.name}"),
            "output": Location(where=f"s3://{place.folder}"),
        }
    )
    command = [sys.executable, "-m", "rowen.runtime.tuning"]
    first = subprocess.Popen(command, env=environment(s3_server, job, 1))
    while not any(name.startswith("tensorboard/") for name in place.names()):
        assert first.poll() is None
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.wait()
    subprocess.run(command, env=environment(s3_server, job, 2), check=True, timeout=600)
    reached, expected = json.loads(place.get("metrics.json")), json.loads((straight[0] / "metrics.json").read_text())
    assert reached.pop("digest") != expected.pop("digest")
    assert reached == expected
    learned = load(place.get("adapter_model.safetensors"))
    wanted = load((straight[0] / "adapter_model.safetensors").read_bytes())
    assert learned.keys() == wanted.keys()
    assert all((learned[name] == wanted[name]).all() for name in wanted)
    assert not any(name.startswith("checkpoints/") for name in place.names())

"""Results in object storage: each row once, whatever dies and whoever else still writes."""

import json
from pathlib import Path

import pytest
from runtime.storage.batch_place import FAILED, GROUP, ROWS, Place, answer, result, run, whole
from runtime.storage.killed import WRITES, Moment, run_killed
from s3 import S3Server

from rowen.crds.job.worker import BatchSpec, ExitCode, Location, ModelLocation
from rowen.crds.names import JOB_SPEC_ENV, JOB_UID_ENV
from rowen.runtime.batch.__main__ import answer_all
from rowen.runtime.batch.rows import Rows
from rowen.runtime.batch.store_output import StoreOutput
from rowen.runtime.failure import WorkerError
from rowen.runtime.native import NoTenant
from rowen.runtime.storage import store
from rowen.runtime.worker import Progress

OTHERS = b'{"id": "batch_req_1", "custom_id": "other", "response": null, "error": 1}\n'


@pytest.fixture(autouse=True)
def job(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(JOB_UID_ENV, "job-1")
    monkeypatch.setattr(store, "_PAUSES_SECONDS", (0.01,))


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    row = {"method": "POST", "url": "/v1/completions", "body": {}}
    lines = [json.dumps({"custom_id": f"r{line}", **row}) for line in range(1, ROWS + 1)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    return Rows(tmp_path / "in.jsonl")


@pytest.fixture
def place(s3_server: S3Server, bucket: str) -> Place:
    return Place(s3_server, f"{bucket}/job")


def test_output_and_errors_appear_whole_at_the_end(place: Place, rows: Rows) -> None:
    output = place.open(rows, 1)
    answer(output, rows, groups=2)
    assert place.names() == ["out.parts/00000001", "out.parts/00000002", "out.parts/00000003"]
    assert (len(output.done), output.failed) == (10, 2)
    answer(output, rows)
    output.close()
    whole(place)


def test_without_a_place_for_errors_all_are_together(place: Place, rows: Rows) -> None:
    run(place, rows, 1, errors=False)
    assert place.names() == ["out"]
    assert sorted(place.lines("out")) == list(range(1, ROWS + 1))


def test_a_later_attempt_goes_on(place: Place, rows: Rows) -> None:
    answer(place.open(rows, 1), rows, groups=1)
    output = place.open(rows, 2)
    assert (sorted(line for line in rows if line in output.done), output.failed) == ([1, 2, 3, 4, 5], 1)
    answer(output, rows)
    output.close()
    whole(place)


def test_a_complete_output_is_done_at_once(place: Place, rows: Rows) -> None:
    run(place, rows, 1)
    place.put("out.parts/00000009", b"left of a kill while the log was removed")
    output = place.open(rows, 2)
    assert (len(output.done), output.failed) == (ROWS, len(FAILED))
    output.close()
    whole(place)


def test_killed_before_any_write_each_row_is_once(place: Place, rows: Rows) -> None:
    number, folder = 1, place.folder
    while True:
        place.folder = f"{folder}-{number}"
        killed = run_killed(lambda: run(place, rows, 1), WRITES, number)
        run(place, rows, 2)
        whole(place)
        if not killed:
            break
        number += 1
    # A claim, three groups and the seal, each written and removed, and the two objects.
    assert number == 13


@pytest.mark.parametrize(
    ("call", "number", "moment"),
    [
        ("create_multipart_upload", 1, "after"),
        ("upload_part", 2, "after"),
        ("complete_multipart_upload", 1, "before"),
        ("complete_multipart_upload", 1, "after"),
    ],
)
def test_killed_in_the_middle_of_a_large_upload_it_is_there_wholly_or_not_at_all(
    call: str, number: int, moment: Moment, place: Place, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_CHUNK_BYTES", 5 * 2**20)
    output = place.open(rows, 1)
    answer(output, rows, text="x" * 2**20)
    output._append("seal")
    assert run_killed(lambda: place.open(rows, 2).close(), [call], number, moment)
    assert ("out" in place.names()) is (moment == "after" and call.startswith("complete"))
    place.open(rows, 3).close()
    whole(place)


def test_two_attempts_at_once_are_one(place: Place, rows: Rows) -> None:
    older = place.open(rows, 1)
    answer(older, rows, groups=1)
    newer = place.open(rows, 2)
    with pytest.raises(WorkerError) as caught:
        answer(older, rows, groups=1)
    assert (caught.value.reason, caught.value.code) == ("Superseded", ExitCode.RETRY)
    answer(newer, rows)
    newer.close()
    whole(place)


def test_what_an_older_attempt_wrote_before_the_newer_claimed_counts(
    place: Place, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = place.open(rows, 1)
    original = store.Store.create

    def late(self: store.Store, name: str, data: bytes) -> bool:
        monkeypatch.undo()
        monkeypatch.setenv(JOB_UID_ENV, "job-1")
        answer(older, rows, groups=1)
        return original(self, name, data)

    monkeypatch.setattr(store.Store, "create", late)
    newer = place.open(rows, 2)
    assert len(newer.done) == GROUP
    answer(newer, rows)
    newer.close()
    whole(place)


def test_an_attempt_that_wakes_after_the_end_leaves_nothing(place: Place, rows: Rows) -> None:
    older = place.open(rows, 1)
    answer(older, rows, groups=1)
    run(place, rows, 2)
    before = place.lines("out")
    with pytest.raises(WorkerError) as caught:
        answer(older, rows, text="other")
    assert caught.value.reason == "Superseded"
    assert place.lines("out") == before
    whole(place)


def test_an_attempt_with_all_rows_that_wakes_after_the_end_leaves_nothing(place: Place, rows: Rows) -> None:
    older = place.open(rows, 1)
    answer(older, rows)
    run(place, rows, 2)
    with pytest.raises(WorkerError) as caught:
        older.close()
    assert caught.value.reason == "Superseded"
    whole(place)


def test_an_older_attempt_that_starts_late_is_refused(place: Place, rows: Rows) -> None:
    place.open(rows, 2)
    with pytest.raises(WorkerError) as caught:
        place.open(rows, 1)
    assert caught.value.reason == "Superseded"


def test_another_job_on_the_same_rows_goes_on(place: Place, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(place.open(rows, 7), rows, groups=1)
    monkeypatch.setenv(JOB_UID_ENV, "job-2")
    assert len(place.open(rows, 1).done) == GROUP
    run(place, rows, 1)
    whole(place)


@pytest.mark.parametrize("name", ["out", "err"])
@pytest.mark.parametrize(
    "data", [b"notes\n", b'{"id": "batch_req_1", "custom_id": "other", "response": null, "error": 1}\n']
)
def test_what_others_have_put_there_is_left_alone(name: str, data: bytes, place: Place, rows: Rows) -> None:
    place.put(name, data)
    with pytest.raises(WorkerError) as caught:
        place.open(rows, 1)
    assert (caught.value.reason, caught.value.code) == ("OutputUnwritable", ExitCode.USER_ERROR)
    assert place.location(name).where in caught.value.message
    assert place.names() == [name]


def test_results_that_are_not_all_are_no_output(place: Place, rows: Rows) -> None:
    place.put("out", result(rows, 1).data)
    with pytest.raises(WorkerError, match="is there already and is not this job's whole output"):
        place.open(rows, 1)


def test_a_log_of_other_rows_is_left_alone(place: Place, rows: Rows, tmp_path: Path) -> None:
    answer(place.open(rows, 1), rows, groups=1)
    (tmp_path / "in.jsonl").write_text((tmp_path / "in.jsonl").read_text().replace('"r', '"other'))
    before = place.names()
    with pytest.raises(WorkerError, match=r"out.parts/00000002:2 is none of this job's"):
        place.open(Rows(tmp_path / "in.jsonl"), 1)
    assert place.names() == before


@pytest.mark.parametrize("name", ["out.parts/notes.txt", "out.parts/00000001"])
def test_an_object_that_no_worker_wrote_among_the_parts_is_left_alone(name: str, place: Place, rows: Rows) -> None:
    place.put(name, b"mine")
    with pytest.raises(WorkerError, match=name):
        place.open(rows, 1)
    assert place.names() == [name]


def test_what_comes_to_the_address_meanwhile_is_not_replaced(place: Place, rows: Rows) -> None:
    output = place.open(rows, 1)
    answer(output, rows)
    place.put("err", b"mine")
    with pytest.raises(WorkerError, match="err is there already"):
        output.close()
    place.remove("err")
    place.open(rows, 2).close()
    whole(place)


def test_an_input_that_has_grown_is_answered_on(place: Place, rows: Rows, tmp_path: Path) -> None:
    output = place.open(rows, 1)
    answer(output, rows)
    output._append("seal")
    with (tmp_path / "in.jsonl").open("a") as stream:
        stream.write('\n{"custom_id": "one more", "method": "POST", "url": "/v1/completions", "body": {}}')
    more = Rows(tmp_path / "in.jsonl")
    run(place, more, 2)
    assert sorted(place.lines("out") + place.lines("err")) == list(range(1, ROWS + 2))


def test_an_address_without_a_name_is_refused(rows: Rows) -> None:
    for where in ("s3://bucket", "s3://bucket/folder/"):
        with pytest.raises(WorkerError, match="names no object"):
            StoreOutput(rows, Location(where=where, secret_name="team-data"), None, 1)


def test_the_worker_reads_and_writes_objects(
    place: Place, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.put("in.jsonl", b'{"custom_id": "a"}\n')
    spec = BatchSpec(
        model=ModelLocation(name_or_path="/none"),
        input=place.location("in.jsonl"),
        output=place.location("out"),
        errors=place.location("err"),
        memory_bytes=1,
    )
    monkeypatch.setenv(JOB_SPEC_ENV, spec.model_dump_json(by_alias=True))
    for _ in range(2):
        # The one line is no row: no model is needed.
        assert answer_all(Progress("rows", NoTenant())) == "1 rows, 1 of them errors (see err)"
        assert place.names() == ["err", "in.jsonl", "out"]
        assert (place.lines("err"), place.lines("out")) == ([1], [])
    mixed = spec.model_copy(update={"errors": Location(where="/volumes/out/err")})
    monkeypatch.setenv(JOB_SPEC_ENV, mixed.model_dump_json(by_alias=True))
    with pytest.raises(WorkerError, match="both on a volume, or both in object storage"):
        answer_all(Progress("rows", NoTenant()))

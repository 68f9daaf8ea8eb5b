"""What a job reads comes out of a real S3 server whole, or its absence is told."""

import threading
import time
from pathlib import Path

import pytest
from s3 import S3Server

from rowen.crds.job.worker import ExitCode, Location, ModelLocation
from rowen.runtime.failure import WorkerError
from rowen.runtime.model_source import model_folder
from rowen.runtime.storage import store
from rowen.runtime.storage.inputs import local_copy

SECRET = "team-data"


def location(where: str, secret: str | None = SECRET) -> Location:
    return Location(where=where, secret_name=secret)


def refused(where: str, secret: str | None = SECRET) -> WorkerError:
    with pytest.raises(WorkerError) as caught:
        local_copy(location(where, secret), "InputMissing")
    return caught.value


def test_a_path_in_the_pod_is_left_as_it_is() -> None:
    assert local_copy(Location(where="/volumes/data/in.jsonl"), "InputMissing") == Path("/volumes/data/in.jsonl")


@pytest.mark.parametrize("size", [0, 5, 40 * 2**20 + 7])
def test_a_file_comes_whole_under_its_own_name(size: int, s3_server: S3Server, bucket: str, secrets: Path) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    s3_server.filesystem().pipe_file(f"{bucket}/in/day=1/in.jsonl", data[:size])
    copy = local_copy(location(f"s3://{bucket}/in/day=1/in.jsonl"), "InputMissing")
    assert copy.name == "in.jsonl"
    assert copy.read_bytes() == data[:size]


def test_a_folder_comes_with_the_files_that_match(s3_server: S3Server, bucket: str, secrets: Path) -> None:
    for name in ("config.json", "sub/part.json", "weights.bin"):
        s3_server.filesystem().pipe_file(f"{bucket}/model/{name}", name.encode())
    s3_server.filesystem().pipe_file(f"{bucket}/model-2/config.json", b"another")
    for where in (f"s3://{bucket}/model", f"s3://{bucket}/model/"):
        copy = local_copy(location(where), "ModelMissing", ("*.json",))
        found = {str(path.relative_to(copy)): path.read_text() for path in copy.rglob("*") if path.is_file()}
        assert found == {"config.json": "config.json", "sub/part.json": "sub/part.json"}


def test_a_model_in_a_bucket_is_a_folder(s3_server: S3Server, bucket: str, secrets: Path) -> None:
    s3_server.filesystem().pipe_file(f"{bucket}/llama/config.json", b"{}")
    model = ModelLocation(name_or_path=f"s3://{bucket}/llama", secret_name=SECRET)
    assert (model_folder(model) / "config.json").read_text() == "{}"
    with pytest.raises(WorkerError, match=r"llam is not there: neither an object nor a folder") as caught:
        model_folder(ModelLocation(name_or_path=f"s3://{bucket}/llam", secret_name=SECRET))
    assert (caught.value.reason, caught.value.code) == ("ModelMissing", ExitCode.USER_ERROR)


def test_what_is_not_there_is_the_users_error(bucket: str, secrets: Path) -> None:
    for where in (f"s3://{bucket}/none.jsonl", "s3://no-such-bucket/none.jsonl"):
        error = refused(where)
        assert (error.reason, error.code) == ("InputMissing", ExitCode.USER_ERROR)
        assert where in error.message


@pytest.mark.parametrize("key", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_refused_credentials_name_the_secret_and_nothing_of_it(
    key: str, s3_server: S3Server, bucket: str, secrets: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    s3_server.filesystem().pipe_file(f"{bucket}/in.jsonl", b"row")
    s3_server.secret(secrets / "wrong", **{key: "mistaken-value"})
    error = refused(f"s3://{bucket}/in.jsonl", "wrong")
    assert (error.reason, error.code) == ("InputMissing", ExitCode.USER_ERROR)
    assert f"s3://{bucket}/in.jsonl: access with Secret wrong is refused" in error.message
    told = error.message + "".join(capfd.readouterr())
    assert not any(part in told for part in ("mistaken-value", s3_server.access_key, s3_server.secret_key))


def test_without_a_secret_the_pods_own_identity_counts(
    s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    s3_server.filesystem().pipe_file(f"{bucket}/in.jsonl", b"row")
    for key in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    assert (
        "the pod's own identity (no secretName is set) is refused" in refused(f"s3://{bucket}/in.jsonl", None).message
    )
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_key)
    assert local_copy(location(f"s3://{bucket}/in.jsonl", None), "InputMissing").read_bytes() == b"row"


def test_two_locations_have_two_identities(s3_server: S3Server, bucket: str, secrets: Path) -> None:
    s3_server.filesystem().pipe_file(f"{bucket}/in.jsonl", b"row")
    assert local_copy(location(f"s3://{bucket}/in.jsonl"), "InputMissing").read_bytes() == b"row"
    s3_server.secret(secrets / "wrong", AWS_SECRET_ACCESS_KEY="mistaken")
    refused(f"s3://{bucket}/in.jsonl", "wrong")
    assert local_copy(location(f"s3://{bucket}/in.jsonl"), "InputMissing").read_bytes() == b"row"


@pytest.mark.parametrize(
    ("names", "expected"),
    [(["a", "a/b"], "is both an object and a folder of objects"), (["a//b"], "no file can have this name")],
)
def test_a_folder_that_no_disk_can_hold_is_refused(
    names: list[str], expected: str, bucket: str, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The tests' server keeps objects as files: it holds no such names itself.
    monkeypatch.setattr(store.Store, "sizes", lambda _self: dict.fromkeys(names, 1))
    monkeypatch.setattr(store.Store, "size", lambda _self: None)
    assert expected in refused(f"s3://{bucket}/folder").message


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/etc/passwd"])
def test_no_name_of_an_object_leads_out_of_the_folder(
    name: str, bucket: str, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store.Store, "sizes", lambda _self: {name: 1})
    monkeypatch.setattr(store.Store, "size", lambda _self: None)
    assert "no file can have this name" in refused(f"s3://{bucket}/folder").message


def test_a_server_that_is_away_is_asked_again_and_then_the_attempt_is(
    s3_server: S3Server, bucket: str, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_PAUSES_SECONDS", (0.01, 0.01))
    s3_server.kill()
    try:
        error = refused(f"s3://{bucket}/in.jsonl")
    finally:
        s3_server.start()
    assert (error.reason, error.code) == ("Failed", ExitCode.RETRY)
    assert f"s3://{bucket}/in.jsonl does not answer" in error.message


def test_a_server_that_comes_back_answers(s3_server: S3Server, bucket: str, secrets: Path) -> None:
    s3_server.filesystem().pipe_file(f"{bucket}/in.jsonl", b"row")
    s3_server.kill()

    def come_back() -> None:
        time.sleep(0.5)
        s3_server.start()

    back = threading.Thread(target=come_back)
    back.start()
    try:
        assert local_copy(location(f"s3://{bucket}/in.jsonl"), "InputMissing").read_bytes() == b"row"
    finally:
        back.join()


def test_a_full_disk_is_told_as_one(
    s3_server: S3Server, bucket: str, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_server.filesystem().pipe_file(f"{bucket}/in.jsonl", b"row")
    opened = location(f"s3://{bucket}/in.jsonl")
    with pytest.raises(WorkerError) as caught:
        store.Store(opened, "InputMissing").download("", Path("/dev/full"))
    assert (caught.value.reason, caught.value.code) == ("DiskFull", ExitCode.RETRY)

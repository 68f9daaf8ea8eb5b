"""An object is created once, and a try whose answer is lost is known again."""

import errno
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from s3 import S3Server
from s3fs.errors import translate_boto_error

from rowen.crds.job.worker import ExitCode, Location
from rowen.runtime.failure import WorkerError
from rowen.runtime.storage import store


@pytest.fixture
def place(bucket: str, secrets: Path, monkeypatch: pytest.MonkeyPatch) -> store.Store:
    monkeypatch.setattr(store, "_PAUSES_SECONDS", (0.0, 0.0))
    return store.Store(Location(where=f"s3://{bucket}/out", secret_name="team-data"), "OutputUnwritable")


def cut_off(*_arguments: Any, **_named: Any) -> None:
    raise OSError(errno.ECONNRESET, "Connection reset by peer")


def test_an_object_is_created_once(place: store.Store) -> None:
    assert place.create("a", b"one")
    assert place.create("a", b"one")
    assert not place.create("a", b"two")
    assert place.read("a") == b"one"


def test_what_lies_below_an_address_is_no_object_there(place: store.Store) -> None:
    assert place.create("a/b", b"one")
    assert place.size("a") is None
    assert place.sizes("a") == {"a/b": 3}
    assert place.sizes("b") == {}


@pytest.mark.parametrize("content", [b"", b"one"])
def test_how_an_object_begins(content: bytes, place: store.Store) -> None:
    assert place.read("a", 2) is None
    place.create("a", content)
    assert place.read("a", 2) == content[:2]


def test_a_refusal_that_was_cut_off_is_asked_for_again(
    place: store.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.create("a", b"one")
    (tmp_path / "same").write_bytes(b"one")
    (tmp_path / "other").write_bytes(b"two")
    for name in ("put_file", "pipe_file"):
        monkeypatch.setattr(place._files, name, cut_off)
    assert place.create("a", b"one")
    assert not place.create("a", b"two")
    assert place.create_from(tmp_path / "same", "a")
    assert not place.create_from(tmp_path / "other", "a")
    with pytest.raises(WorkerError, match="b does not answer") as caught:
        place.create("b", b"one")
    assert (caught.value.reason, caught.value.code) == ("Failed", ExitCode.RETRY)


def test_an_object_that_changes_while_it_is_copied_is_for_another_attempt(
    place: store.Store, s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.create("a", b"one")
    original = place._files.get_file

    def changed(path: str, file: str) -> None:
        original(path, file)
        s3_server.filesystem().pipe_file(path, b"two")

    monkeypatch.setattr(place._files, "get_file", changed)
    with pytest.raises(WorkerError, match="changed while it was read") as caught:
        place.download("a", tmp_path / "a")
    assert caught.value.code is ExitCode.RETRY


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ExpiredToken", ExitCode.RETRY),
        ("RequestTimeTooSkewed", ExitCode.RETRY),
        ("SignatureDoesNotMatch", ExitCode.USER_ERROR),
    ],
)
def test_credentials_that_have_expired_are_read_anew(
    name: str, expected: ExitCode, place: store.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = {"Error": {"Code": name, "Message": "as the server says"}, "ResponseMetadata": {"HTTPStatusCode": 403}}

    def refused(*_arguments: Any, **_named: Any) -> None:
        raise translate_boto_error(ClientError(answer, "PutObject"))

    monkeypatch.setattr(place._files, "pipe_file", refused)
    with pytest.raises(WorkerError, match="access with Secret team-data is refused: as the server says") as caught:
        place.put("a", b"one")
    assert (caught.value.reason, caught.value.code) == ("OutputUnwritable", expected)

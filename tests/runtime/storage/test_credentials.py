"""A Secret's keys become options of one filesystem, and nothing else."""

import json
from pathlib import Path

import gcsfs
import pytest
from huggingface_hub import HfFileSystem

from rowen.crds.job.worker import ExitCode, Location
from rowen.runtime.failure import WorkerError
from rowen.runtime.storage import credentials
from rowen.runtime.storage.credentials import hub_token, options
from rowen.runtime.storage.store import Store


@pytest.fixture(autouse=True)
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "SECRETS_DIRECTORY", str(tmp_path))


def write(folder: Path, keys: dict[str, str]) -> None:
    (folder / "s").mkdir()
    for name, value in keys.items():
        (folder / "s" / name).write_text(value)


def of(where: str) -> dict[str, object]:
    return options(Location(where=where, secret_name="s"))


def test_no_secret_no_options() -> None:
    assert options(Location(where="s3://b/k")) == {}
    assert hub_token(None) is None


def test_s3(tmp_path: Path) -> None:
    keys = {
        "AWS_ACCESS_KEY_ID": "a\n", "AWS_SECRET_ACCESS_KEY": "b", "AWS_SESSION_TOKEN": "c", "AWS_REGION": "eu-1",
        "AWS_ENDPOINT_URL": "http://s3", "HF_TOKEN": "of others",
    }  # fmt: skip
    write(tmp_path, keys)
    assert of("s3://b/k") == {
        "key": "a", "secret": "b", "token": "c", "endpoint_url": "http://s3", "client_kwargs": {"region_name": "eu-1"},
    }  # fmt: skip


def test_of_an_endpoint_alone_the_rest_is_the_pods_own(tmp_path: Path) -> None:
    write(tmp_path, {"AWS_ENDPOINT_URL": "http://s3"})
    assert of("s3://b/k") == {"endpoint_url": "http://s3"}


def test_gs(tmp_path: Path) -> None:
    write(tmp_path, {"service-account.json": "{}"})
    assert of("gs://b/k") == {"token": str(tmp_path / "s" / "service-account.json")}


def test_hf(tmp_path: Path) -> None:
    write(tmp_path, {"HF_TOKEN": "hf_x\n"})
    assert of("hf://datasets/o/n") == {"token": "hf_x"}
    assert hub_token("s") == "hf_x"


@pytest.mark.parametrize(
    ("where", "expected"),
    [("s3://b/k", "AWS_ACCESS_KEY_ID"), ("gs://b/k", "service-account.json"), ("hf://o/n", "HF_TOKEN")],
)
def test_a_secret_without_a_key_for_the_address_is_told(where: str, expected: str, tmp_path: Path) -> None:
    write(tmp_path, {"PASSWORD": "p"})
    with pytest.raises(WorkerError, match=rf"Secret s has no key for .*{expected}") as caught:
        of(where)
    assert caught.value.reason == "SpecInvalid"


@pytest.mark.parametrize("there", ["nothing", "folder", "links"])
def test_a_secret_that_is_not_there_may_come(there: str, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    if there != "nothing":
        folder.mkdir()
    if there == "links":
        # As the kubelet leaves it of an optional Secret that does not exist.
        (folder / "..2026_11_24").mkdir()
        (folder / "..data").symlink_to("..2026_11_24")
    with pytest.raises(WorkerError, match="there is no Secret s, or it is empty") as caught:
        of("s3://b/k")
    assert caught.value.code is ExitCode.RETRY


def test_the_other_libraries_take_their_options(tmp_path: Path) -> None:
    account = {"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"}
    write(tmp_path, {"service-account.json": json.dumps(account), "HF_TOKEN": "hf_x"})
    google = Store(Location(where="gs://bucket/k", secret_name="s"), "InputMissing")._files
    assert isinstance(google, gcsfs.GCSFileSystem)
    assert google.credentials.credentials.refresh_token == "r"
    hub = Store(Location(where="hf://datasets/o/n", secret_name="s"), "InputMissing")._files
    assert isinstance(hub, HfFileSystem)
    assert hub.token == "hf_x"


@pytest.mark.parametrize("value", [b"hf_hidden\nhf_other", b"hf_hidden\rx", "hf_hiddén".encode(), b"hf_hidden\xff"])
def test_what_no_header_can_hold_is_named_and_not_told(value: bytes, tmp_path: Path) -> None:
    write(tmp_path, {})
    (tmp_path / "s" / "HF_TOKEN").write_bytes(value)
    with pytest.raises(WorkerError, match="Secret s: HF_TOKEN is not one line of ASCII") as caught:
        of("hf://datasets/o/n")
    assert (caught.value.reason, caught.value.code) == ("SpecInvalid", ExitCode.USER_ERROR)
    assert "hidden" not in caught.value.message


@pytest.mark.parametrize("text", ["no JSON", "{}", "[]", "\xff"])
def test_a_key_file_that_is_none_names_its_secret(text: str, tmp_path: Path) -> None:
    write(tmp_path, {"service-account.json": text})
    with pytest.raises(WorkerError, match="Secret s cannot be used for gs://") as caught:
        Store(Location(where="gs://bucket/k", secret_name="s"), "InputMissing")
    assert (caught.value.reason, caught.value.code) == ("SpecInvalid", ExitCode.USER_ERROR)

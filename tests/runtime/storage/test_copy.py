"""A model out of a bucket for an engine: whole or not at all, and the failure is the log's last line."""

import os
import signal
import sys
from pathlib import Path

import pytest
from s3 import S3Server

from rowen.runtime.storage.__main__ import main
from rowen.runtime.storage.store import Store


def copied(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    monkeypatch.setattr(sys, "argv", ["storage", *map(str, arguments), "--secret-name", "team-data"])
    return main()


def test_a_model_is_copied_once(
    s3_server: S3Server, bucket: str, secrets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_server.filesystem().pipe_file(f"{bucket}/llama/config.json", b"{}")
    s3_server.filesystem().pipe_file(f"{bucket}/llama/model.safetensors", b"weights")
    assert copied(monkeypatch, f"s3://{bucket}/llama/", tmp_path / "model") == 0
    s3_server.filesystem().rm(f"{bucket}/llama", recursive=True)
    assert copied(monkeypatch, f"s3://{bucket}/llama/", tmp_path / "model") == 0
    assert (tmp_path / "model" / "llama" / "model.safetensors").read_bytes() == b"weights"


def test_what_a_kill_has_left_of_a_model_goes(
    s3_server: S3Server, bucket: str, secrets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_server.filesystem().pipe_file(f"{bucket}/llama/config.json", b"{}")
    download, address = Store.download, f"s3://{bucket}/llama"

    def killed(store: Store, name: str, file: Path) -> None:
        download(store, name, file)
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        Store.download = killed  # type: ignore[method-assign]
        copied(monkeypatch, address, tmp_path / "model")
        os._exit(1)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    assert list(tmp_path.rglob("config.json"))
    assert not (tmp_path / "model").exists()
    assert copied(monkeypatch, address, tmp_path / "model") == 0
    assert list(tmp_path.rglob("config.json")) == [tmp_path / "model/llama/config.json"]


def test_no_model_is_said(
    bucket: str, secrets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert copied(monkeypatch, f"s3://{bucket}/none", tmp_path / "model") == 64
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"ModelMissing: s3://{bucket}/none is not there")
    assert not (tmp_path / "model").exists()

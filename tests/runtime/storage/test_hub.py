"""What the hub's answers mean to a job, by a server that stands in for it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import huggingface_hub.constants
import pytest

from rowen.crds.job.worker import ExitCode, Location, ModelLocation
from rowen.runtime.failure import WorkerError
from rowen.runtime.model_source import model_folder
from rowen.runtime.storage import store
from rowen.runtime.storage.inputs import local_copy


@contextmanager
def hub(status: int) -> Iterator[str]:
    """A server that answers everything with that status."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_HEAD = do_POST = answer  # noqa: N815 - the class's names

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def refused(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkerError:
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    with pytest.raises(WorkerError) as caught:
        model_folder(ModelLocation(name_or_path="team/model", revision="main"))
    assert caught.value.reason == "ModelMissing"
    return caught.value


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (429, ExitCode.RETRY, "team/model at main cannot be downloaded"),
        (500, ExitCode.RETRY, "team/model at main cannot be downloaded"),
        (401, ExitCode.USER_ERROR, "the hub refuses team/model at main: set secretName"),
        (403, ExitCode.USER_ERROR, "the hub refuses team/model at main: set secretName"),
        (404, ExitCode.USER_ERROR, "the hub has no team/model at main"),
    ],
)
def test_an_answer_is_the_users_error_or_passes(
    status: int, code: ExitCode, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hub(status) as endpoint:
        error = refused(endpoint, tmp_path, monkeypatch)
    assert (error.code, error.message.startswith(said)) == (code, True), error.message


def test_a_hub_that_is_away_is_for_another_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = refused("http://127.0.0.1:9", tmp_path, monkeypatch)
    assert (error.code, "cannot be downloaded" in error.message) == (ExitCode.RETRY, True)


@pytest.mark.parametrize(
    "where", ["datasets/owner", "datasets/owner/", "owner", "datasets", "datasets/o/a--b/in.jsonl"]
)
def test_an_address_of_no_repository_is_the_users_error(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_PAUSES_SECONDS", ())
    with pytest.raises(
        WorkerError, match=rf"hf://{where.rstrip('/')} cannot be used: .*(namespace/name|repo_id)"
    ) as caught:
        local_copy(Location(where=f"hf://{where}"), "InputMissing")
    assert (caught.value.reason, caught.value.code) == ("InputMissing", ExitCode.USER_ERROR)

"""What a worker leaves is whole, whatever the message is made of."""

from pathlib import Path

import pytest

from rowen.crds.job.worker import ExitCode, WorkerResult
from rowen.runtime.failure import WorkerError
from rowen.runtime.worker import Progress, run

KEPT_BYTES = 4096
"""The kubelet keeps the end of a longer one."""


@pytest.mark.parametrize(
    ("message", "begins"),
    [
        ("short", "short"),
        ("中" * 3000, "中" * 1000),
        ('"' * 3000, '"' * 1000),
        ("/data/\udcff.jsonl:1", "/data/\\udcff.jsonl:1"),
    ],
    ids=["short", "three bytes a character", "quoted", "no text"],
)
def test_a_result_of_any_message_can_be_read(message: str, begins: str, tmp_path: Path) -> None:
    def work(_progress: Progress) -> str:
        raise WorkerError("DatasetMalformed", message)

    log = tmp_path / "termination-log"
    log.write_text("")
    assert run("steps", work, log) == ExitCode.USER_ERROR
    result = WorkerResult.model_validate_json(log.read_bytes()[-KEPT_BYTES:])
    assert result.reason == "DatasetMalformed"
    assert result.message.startswith(begins)

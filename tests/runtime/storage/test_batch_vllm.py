"""A batch with a real vLLM whose model, requests, answers and errors are all in object storage."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from s3 import S3Server

from rowen.crds.job.worker import BatchSpec, Location, ModelLocation
from rowen.crds.names import JOB_SPEC_ENV
from rowen.demo import samples

WORKER = """
import sys
from pathlib import Path
from rowen.runtime.storage import credentials
credentials.SECRETS_DIRECTORY = sys.argv[1]
from rowen.runtime.batch.__main__ import answer_all
from rowen.runtime.worker import run
if __name__ == "__main__":
    sys.exit(run("rows", answer_all, Path(sys.argv[2])))
"""


@pytest.mark.timeout(600)
def test_all_of_it_in_object_storage(
    s3_server: S3Server, bucket: str, secrets: Path, tiny_model: Path, tmp_path: Path
) -> None:
    files = s3_server.filesystem()
    for path in tiny_model.iterdir():
        files.put_file(str(path), f"{bucket}/models/tiny/{path.name}")
    rows = [*samples.requests(5), {"custom_id": "no url", "method": "POST", "url": "/v1/none", "body": {}}]
    files.pipe_file(f"{bucket}/in.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())

    def place(name: str) -> Location:
        return Location(where=f"s3://{bucket}/{name}", secret_name="team-data")

    job = BatchSpec(
        model=ModelLocation(name_or_path=f"s3://{bucket}/models/tiny", secret_name="team-data"),
        input=place("in.jsonl"),
        output=place("out/answers.jsonl"),
        errors=place("out/errors.jsonl"),
        memory_bytes=3 * 2**30,
    )
    (tmp_path / "worker.py").write_text(WORKER)
    ended = subprocess.run(
        [sys.executable, "worker.py", str(secrets), "result.json"],
        cwd=tmp_path,
        env={**os.environ, JOB_SPEC_ENV: job.model_dump_json(by_alias=True, exclude_none=True), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    answers = [json.loads(line) for line in files.cat_file(f"{bucket}/out/answers.jsonl").splitlines()]
    assert sorted(answer["custom_id"] for answer in answers) == sorted(row["custom_id"] for row in rows[:5])
    assert {answer["response"]["status_code"] for answer in answers} == {200}
    [error] = [json.loads(line) for line in files.cat_file(f"{bucket}/out/errors.jsonl").splitlines()]
    assert (error["custom_id"], "/v1/none" in error["error"]["message"]) == ("no url", True)
    assert sorted(path.rpartition("/")[2] for path in files.find(f"{bucket}/out")) == ["answers.jsonl", "errors.jsonl"]

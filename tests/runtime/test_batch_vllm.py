"""The batch worker with a real engine, as the operator starts it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from runtime.server import environment

from rowen.crds.worker import BatchSpec, ModelLocation
from rowen.demo.samples import requests, write_lines


@pytest.mark.timeout(600)
def test_rows_are_answered_in_the_openai_format(tiny_model: Path, tmp_path: Path) -> None:
    write_lines(tmp_path / "in.jsonl", requests(20))
    with (tmp_path / "in.jsonl").open("a") as stream:
        stream.write("broken\n")
        body = {"prompt": list(range(10, 40)) * 40}
        stream.write(json.dumps({"custom_id": "long", "method": "POST", "url": "/v1/completions", "body": body}))
    job = BatchSpec(
        model=ModelLocation(name_or_path=str(tiny_model)),
        input_path=str(tmp_path / "in.jsonl"),
        output_path=str(tmp_path / "out" / "results.jsonl"),
        memory_bytes=2 * 2**30,
    )
    command = [sys.executable, "-m", "rowen.runtime.batch"]
    settings = environment(ROWEN_JOB_SPEC=job.model_dump_json(by_alias=True), ROWEN_ATTEMPT="1")
    ended = subprocess.run(command, env=settings, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-4000:]
    results = {value["id"]: value for value in map(json.loads, Path(job.output_path).read_text().splitlines())}
    assert len(results) == 22
    assert [results[f"batch_req_{line}"]["error"] is None for line in (1, 2, 21, 22)] == [True, True, False, False]
    chat, completion = (results[f"batch_req_{line}"]["response"]["body"] for line in (1, 2))
    assert (chat["object"], chat["choices"][0]["message"]["role"]) == ("chat.completion", "assistant")
    assert completion["object"] == "text_completion"
    assert completion["usage"]["completion_tokens"] > 0
    assert '"22 rows, 2 of them errors (see results.jsonl)"' in ended.stderr

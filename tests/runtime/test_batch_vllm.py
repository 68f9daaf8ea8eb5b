"""The batch worker with a real engine, as the operator starts it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from runtime.server import environment

from rowen.crds.worker import BatchSpec, Location, ModelLocation
from rowen.demo.samples import requests, write_lines
from rowen.runtime.batch import precision
from rowen.runtime.batch.memory import OVERHEAD_BYTES
from rowen.runtime.batch.weights import weights_bytes

CACHE_NUMBERS = 5 * 128 * 2 * 2 * 32
"""Five blocks of 128 tokens: two layers, keys and values of 32 numbers. vLLM keeps one block to itself."""
TAKES = "the model takes 1024, of which 512 fit into the job's memory"
ODD: list[tuple[dict[str, Any], str]] = [
    ({"prompt": list(range(10, 40)) * 40}, f"the prompt has 1200 tokens, {TAKES}"),
    ({"prompt": [10] * 512}, f"the prompt has 512 tokens, {TAKES}"),
    ({"prompt": [10] * 500, "max_tokens": 13}, f"the prompt has 500 tokens and 13 more are wanted, {TAKES}"),
    ({"prompt": [10, -1]}, "vocabulary"),
    ({"prompt": [10, 10**9]}, "vocabulary"),
    ({"prompt": [10**26]}, "vocabulary"),
    ({"prompt": "x", "stop": [""]}, "body.stop"),
    ({"prompt": "x", "seed": 10**26}, "body.seed"),
    ({"messages": [{"role": "user", "content": "a\ud800"}]}, "the chat template refuses the messages"),
]
"""Bodies that the model cannot answer, and what is said of each."""
FITTING = [
    {"prompt": [10, 11], "seed": 2**63 - 1},
    {"prompt": [10, 11], "seed": -(2**63)},
    {"prompt": [10] * 500, "max_tokens": 12},
    {"messages": [{"role": "user", "content": "x"}]},
]


def _line(custom_id: str, body: dict[str, Any]) -> str:
    url = "/v1/chat/completions" if "messages" in body else "/v1/completions"
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": body}) + "\n"


@pytest.mark.timeout(600)
def test_rows_are_answered_in_the_openai_format(tiny_model: Path, tmp_path: Path) -> None:
    write_lines(tmp_path / "in.jsonl", requests(20))
    with (tmp_path / "in.jsonl").open("a") as stream:
        stream.write("broken\n")
        stream.writelines(_line(f"odd-{number}", body) for number, (body, _) in enumerate(ODD))
        stream.writelines(_line(f"fitting-{number}", body) for number, body in enumerate(FITTING))
    dtype = precision.chosen(tiny_model)
    cache_bytes = CACHE_NUMBERS * (4 if dtype == precision.FLOAT32 else 2)
    job = BatchSpec(
        model=ModelLocation(name_or_path=str(tiny_model)),
        input=Location(where=str(tmp_path / "in.jsonl")),
        output=Location(where=str(tmp_path / "out" / "results.jsonl")),
        memory_bytes=OVERHEAD_BYTES + weights_bytes(tiny_model, dtype) + cache_bytes,
    )
    command = [sys.executable, "-m", "rowen.runtime.batch"]
    settings = environment(ROWEN_JOB_SPEC=job.model_dump_json(by_alias=True), ROWEN_ATTEMPT="1")
    ended = subprocess.run(command, env=settings, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-4000:]
    results = {value["id"]: value for value in map(json.loads, Path(job.output.where).read_text().splitlines())}
    assert {line for line in range(1, 35) if results[f"batch_req_{line}"]["error"]} == set(range(21, 31))
    assert len(results) == 34
    for line, (_, said) in enumerate(ODD, start=22):
        message = results[f"batch_req_{line}"]["error"]["message"]
        assert re.search(rf"\b(line |in\.jsonl:){line}: ", message)
        assert said in message
    chat, completion = (results[f"batch_req_{line}"]["response"]["body"] for line in (1, 2))
    assert (chat["object"], chat["choices"][0]["message"]["role"]) == ("chat.completion", "assistant")
    assert completion["object"] == "text_completion"
    assert completion["usage"]["completion_tokens"] > 0
    assert '"34 rows, 10 of them errors (see results.jsonl)"' in ended.stderr

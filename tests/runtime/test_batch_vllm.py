"""The batch worker with a real vLLM, as the operator starts it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from runtime.server import START_SECONDS, environment
from transformers import AutoModelForCausalLM, BertConfig, BertModel

from rowen.crds.job.worker import BatchSpec, ExitCode, Location, ModelLocation
from rowen.demo.samples import requests
from rowen.runtime.batch.memory import OVERHEAD_BYTES
from rowen.runtime.batch.precision import FLOAT32
from rowen.runtime.batch.serving.routes import ROUTES
from rowen.runtime.batch.weights import weights_bytes

CACHE_BYTES = 5 * 128 * 2 * 2 * 32 * 4
"""Five blocks of 128 tokens: two layers, keys and values of 32 numbers. vLLM keeps one block to itself."""
FITS = "the model takes 1024, of which 512 fit into the job's memory"
SCHEMA = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
MESSAGES = [{"role": "user", "content": "x"}]
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"prompt": list(range(10, 40)) * 40}, "maximum context length is 512 tokens"),
    ({"prompt": [10] * 500, "max_tokens": 13, "ignore_eos": True}, f"500 tokens and 13 more are wanted, {FITS}"),
    ({"prompt": [10, -1]}, "body.prompt"),
    ({"prompt": [10, 10**9]}, "out of vocabulary"),
    ({"prompt": [10**26]}, "out of vocabulary"),
    ({"prompt": "x", "stop": [""]}, "stop cannot contain an empty string"),
    ({"prompt": "x", "seed": 10**26}, "body.seed"),
    ({"prompt": "x", "temperature": -1}, "temperature"),
    ({"messages": [{"role": "user", "content": "a\ud800"}]}, "TextEncodeInput"),
    ({"messages": []}, "empty conversation"),
]
"""Bodies that vLLM refuses, and what it says."""
STOP = {"stop": ["\ud800"]}
FAILING: dict[str, Any] = {"prompt": "x", **STOP}
"""A body at which vLLM fails each time."""
ANSWERED: list[dict[str, Any]] = [
    {"prompt": [10, 11], "seed": 2**63 - 1},
    {"prompt": [10] * 500, "max_tokens": 12},
    {"prompt": "x", "n": 2, "max_tokens": 2},
    {"prompt": "x", "max_tokens": 3, "logprobs": 2, "temperature": 0},
    {"messages": MESSAGES, "max_tokens": 40, "response_format": FORMAT},
    {"messages": MESSAGES, "max_tokens": 3, "logprobs": True, "top_logprobs": 2},
    {"messages": MESSAGES, "max_tokens": 3, "min_tokens": 3, "chat_template_kwargs": {"unused": 1}},
]
GENERATING = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/tokenize")
GREEDY: dict[str, Any] = {"prompt": [20, 30, 40] * 3, "max_tokens": 12, "temperature": 0, "return_token_ids": True}


def line(custom_id: str, body: dict[str, Any], url: str = "") -> str:
    url = url or ("/v1/chat/completions" if "messages" in body else "/v1/completions")
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": body}) + "\n"


def job(folder: Path, model: Path, lines: list[str], **more: Any) -> BatchSpec:
    """A job of these lines, with two files."""
    (folder / "in.jsonl").write_text("".join(lines))
    spec = {
        "model": ModelLocation(name_or_path=str(model)),
        "input": Location(where=str(folder / "in.jsonl")),
        "output": Location(where=str(folder / "out" / "results.jsonl")),
        "errors": Location(where=str(folder / "out" / "errors.jsonl")),
        "args": ["--dtype=float32"],
        "memory_bytes": OVERHEAD_BYTES + weights_bytes(model, FLOAT32) + CACHE_BYTES,
    }
    return BatchSpec.model_validate(spec | more)


@contextmanager
def working(spec: BatchSpec, attempt: int = 1) -> Iterator["subprocess.Popen[str]"]:
    """The worker, which is killed at the end with all of its processes."""
    # One thread: where others compute, too, several wait for one another.
    command = ["taskset", "-c", str(max(os.sched_getaffinity(0))), sys.executable, "-m", "rowen.runtime.batch"]
    settings = environment(ROWEN_JOB_SPEC=spec.model_dump_json(by_alias=True), ROWEN_ATTEMPT=str(attempt))
    process = subprocess.Popen(
        command, env=settings, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def done(spec: BatchSpec, attempt: int = 1, code: int = 0) -> str:
    """What the worker says until it has ended in that way."""
    with working(spec, attempt) as process:
        _, said = process.communicate(timeout=START_SECONDS)
    assert process.returncode == code, said[-4000:]
    return said


def results(spec: BatchSpec) -> dict[str, dict[str, Any]]:
    """By custom id."""
    assert spec.errors is not None
    lines = Path(spec.output.where).read_text() + Path(spec.errors.where).read_text()
    values = [json.loads(each) for each in lines.splitlines()]
    assert len({value["id"] for value in values}) == len(values)
    return {value["custom_id"]: value for value in values}


@pytest.mark.timeout(600)
def test_rows_are_answered_as_online(tiny_model: Path, tmp_path: Path) -> None:
    lines = [json.dumps(row) + "\n" for row in requests(6)]
    lines += [line(f"refused-{number}", body) for number, (body, _) in enumerate(REFUSED)]
    lines += [line(f"answered-{number}", body) for number, body in enumerate(ANSWERED)]
    lines += ["broken\n", line("elsewhere", {"input": "x"}, "/v1/embeddings"), line("failing", FAILING)]
    # They are asked later, and answered while it is tried again.
    lines += [line(f"later-{number}", {"prompt": [10, 11], "max_tokens": 5}) for number in range(8)]
    small = {route: body for route, body in ROUTES.items() if route in GENERATING}
    lines += [line(route, body, route) for route, body in small.items()]
    spec = job(tmp_path, tiny_model, lines)
    assert f'"{len(lines)} rows, {len(REFUSED) + 3} of them errors (see errors.jsonl)"' in done(spec)
    found = results(spec)
    assert len(found) == len(lines)
    assert spec.errors is not None
    errors = [json.loads(each)["custom_id"] for each in Path(spec.errors.where).read_bytes().splitlines()]
    assert sorted(map(str, errors)) == sorted(
        ["None", "elsewhere", "failing", *(f"refused-{n}" for n in range(len(REFUSED)))]
    )
    for number, (_, said) in enumerate(REFUSED):
        value = found[f"refused-{number}"]
        assert (value["error"], value["response"]["status_code"]) == (None, 400)
        assert said in str(value["response"]["body"]["error"]), number
    assert {found[route]["response"]["status_code"] for route in small} == {200}
    assert found["failing"]["response"]["status_code"] == 500
    assert found["elsewhere"]["response"] is None
    assert (
        "url '/v1/embeddings': this model answers at /v1/chat/completions, " in found["elsewhere"]["error"]["message"]
    )
    chat, completion = (found[f"request-000{number}"]["response"]["body"] for number in (0, 1))
    assert (chat["object"], chat["choices"][0]["message"]["role"]) == ("chat.completion", "assistant")
    assert (chat["id"], chat["model"]) == ("chatcmpl-batch_req_1", "llama-demo")
    assert completion["object"] == "text_completion"
    assert completion["usage"]["completion_tokens"] > 0
    bodies = [found[f"answered-{number}"]["response"]["body"] for number in range(len(ANSWERED))]
    assert bodies[0]["model"] == str(tiny_model)
    assert bodies[1]["usage"]["prompt_tokens"] == 500
    assert len(bodies[2]["choices"]) == 2
    assert [len(top) for top in bodies[3]["choices"][0]["logprobs"]["top_logprobs"]] == [2, 2, 2]
    assert json.loads(bodies[4]["choices"][0]["message"]["content"])["a"] in (1, 2)
    assert len(bodies[5]["choices"][0]["logprobs"]["content"][0]["top_logprobs"]) == 2


@pytest.mark.timeout(600)
def test_rows_at_which_vllm_fails_are_told_though_no_other_is_left(tiny_model: Path, tmp_path: Path) -> None:
    spec = job(tmp_path, tiny_model, [line("failing", FAILING), line("chat", {"messages": MESSAGES, **STOP})])
    assert '"2 rows, 2 of them errors (see errors.jsonl)"' in done(spec)
    assert [value["response"]["status_code"] for value in results(spec).values()] == [500, 500]


@pytest.mark.timeout(600)
def test_an_argument_that_vllms_engine_refuses_is_the_users_error(tiny_model: Path, tmp_path: Path) -> None:
    arguments = ["--dtype=float32", "--max-model-len=1000"]
    said = done(job(tmp_path, tiny_model, [line("a", ANSWERED[0])], args=arguments), code=ExitCode.USER_ERROR)
    assert '"reason": "ModelUnsuitable"' in said
    assert "vLLM refuses the model or its arguments: ValueError: To serve at least one request" in said


def greedy(model: Any) -> list[int]:
    """What the model says to a prompt, without vLLM: tokens."""
    prompt = GREEDY["prompt"]
    tokens = model.generate(torch.tensor([prompt]), max_new_tokens=GREEDY["max_tokens"], do_sample=False)
    return [int(token) for token in tokens[0, len(prompt) :]]


def engine_of(process: "subprocess.Popen[str]") -> int:
    """The process in which vLLM computes."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return next(int(child) for child in children if "EngineCore" in Path(f"/proc/{child}/cmdline").read_text())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_adapter_answers_and_every_row_once_though_the_engine_was_killed(tiny_model: Path, tmp_path: Path) -> None:
    base = AutoModelForCausalLM.from_pretrained(tiny_model)
    plain = greedy(base)
    torch.manual_seed(3)
    config = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    tuned = get_peft_model(base, config)
    tuned.save_pretrained(tmp_path / "adapter")
    rows = [line(f"r{number}", {"prompt": [20 + number % 50] * 9, "max_tokens": 60}) for number in range(300)]
    spec = job(tmp_path, tiny_model, [*rows, line("greedy", GREEDY)], adapter=Location(where=str(tmp_path / "adapter")))
    output = Path(spec.output.where)
    with working(spec) as process:
        end = time.monotonic() + START_SECONDS
        while not (output.exists() and output.stat().st_size):
            assert process.poll() is None, process.communicate()[1][-4000:]
            assert time.monotonic() < end
            time.sleep(0.01)
        os.kill(engine_of(process), signal.SIGKILL)
        _, said = process.communicate(timeout=START_SECONDS)
    assert process.returncode == 1, said[-4000:]
    assert "vLLM's engine has ended" in said
    before = output.read_bytes()
    assert before.count(b"\n") <= 300
    done(spec, attempt=2)
    assert output.read_bytes().startswith(before)
    found = results(spec)
    assert len(found) == 301
    assert {value["response"]["status_code"] for value in found.values()} == {200}
    body = found["greedy"]["response"]["body"]
    assert body["choices"][0]["token_ids"] == greedy(tuned) != plain
    assert body["model"] == str(tmp_path / "adapter")


@pytest.fixture
def encoder(tiny_model: Path, tmp_path: Path) -> Path:
    """A BERT of two layers with the Llama's tokenizer."""
    folder = tmp_path / "encoder"
    torch.manual_seed(4)
    config = BertConfig(
        vocab_size=1024, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128,
        max_position_embeddings=256,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    for path in tiny_model.glob("token*"):
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


@pytest.mark.timeout(600)
def test_an_embedding_model_embeds_and_scores(encoder: Path, tmp_path: Path) -> None:
    lines = [line(f"e{number}", {"model": "mine", "input": "a" * number}, "/v1/embeddings") for number in range(1, 4)]
    lines.append(line("s", {"text_1": "a", "text_2": ["a", "b"]}, "/v1/score"))
    lines.append(line("long", {"input": [9] * 300}, "/v1/embeddings"))
    lines.append(line("chat", {"messages": MESSAGES}))
    small = {route: body for route, body in ROUTES.items() if route not in (*GENERATING, "/classify")}
    lines += [line(route, body, route) for route, body in small.items()]
    spec = job(tmp_path, encoder, lines)
    done(spec)
    found = results(spec)
    for number in range(1, 4):
        body = found[f"e{number}"]["response"]["body"]
        assert (body["model"], body["object"], len(body["data"][0]["embedding"])) == ("mine", "list", 64)
    assert len(found["s"]["response"]["body"]["data"]) == 2
    assert {found[route]["response"]["status_code"] for route in small} == {200}
    assert found["long"]["response"]["status_code"] == 400
    assert "url '/v1/chat/completions': this model answers at " in found["chat"]["error"]["message"]

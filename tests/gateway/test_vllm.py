"""The whole way with a real vLLM: OpenAI's client, the gateway, the operator's word to the worker, the worker."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import openai
import pytest
from apiserver import ApiServer
from gateway.conftest import Team
from gateway.rig import gateway as running
from gateway.rig import row
from gateway.test_batches import job, start, tell
from openai.types.chat import ChatCompletion
from runtime.server import START_SECONDS, environment
from s3 import REGION, S3Server

from rowen.crds.job.batch_inference import BatchInference
from rowen.crds.job.worker import BatchSpec, ModelLocation
from rowen.demo.samples import Shape, write_model
from rowen.kube.timestamps import rfc3339
from rowen.operator.jobs.worker_spec import batch_spec

MEMORY_BYTES = 2**31 + 2**27
SCHEMA = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}


def asked(custom_id: str, **more: Any) -> dict[str, Any]:
    """A row for a chat, with further fields of the body."""
    found = row(custom_id)
    return {**found, "body": {**found["body"], "max_tokens": 40, **more}}


def work(spec: BatchSpec, s3: S3Server) -> None:
    """Runs the worker to its end, with the pod's own identity for the storage."""
    own = {
        "AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key,
        "AWS_ENDPOINT_URL": s3.endpoint, "AWS_DEFAULT_REGION": REGION,
    }  # fmt: skip
    settings = environment(ROWEN_JOB_SPEC=spec.model_dump_json(by_alias=True), ROWEN_ATTEMPT="1", **own)
    command = ["taskset", "-c", str(max(os.sched_getaffinity(0))), sys.executable, "-m", "rowen.runtime.batch"]
    process = subprocess.Popen(
        command, env=settings, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        _, said = process.communicate(timeout=START_SECONDS)
        assert process.returncode == 0, said[-4000:]
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.timeout(600)
async def test_a_batch_is_answered(
    team: Team, api_server: ApiServer, s3_server: S3Server, gateway_bucket: str, tmp_path: Path
) -> None:
    rows = [
        asked("plain"),
        asked("formed", response_format=FORMAT),
        asked("logged", logprobs=True, top_logprobs=2),
        asked("refused", temperature=-1),
    ]
    write_model(tmp_path / "model", Shape(layers=2, hidden=64, intermediate=128, heads=2, key_value_heads=1))
    with running(api_server, s3_server, gateway_bucket, tmp_path, job_secret_name="") as found:
        client = found.client(team.token, team.namespace)
        file = client.files.create(file=("rows.jsonl", "\n".join(map(json.dumps, rows)).encode()), purpose="batch")
        batch = start(Team(team.kube, team.namespace, team.token, client), file.id)
        inference = BatchInference.from_wire((await job(team, batch))["spec"]["batchInference"])
        # The model is on a volume of the pod.
        where = ModelLocation(name_or_path=str(tmp_path / "model"))
        spec = batch_spec(inference, MEMORY_BYTES).model_copy(update={"model": where, "args": ["--dtype=float32"]})
        work(spec, s3_server)
        await tell(team, batch, ("Finished", "True", "Completed"), completionTime=rfc3339(time.time()))
        ended = client.batches.retrieve(batch.id)
        answers, errors = results(client, ended.output_file_id), results(client, ended.error_file_id)
    assert set(answers) == {"plain", "formed", "logged"}
    chats = {name: ChatCompletion.model_validate(answer["body"]) for name, answer in answers.items()}
    assert {chat.model for chat in chats.values()} == {"chat"}
    assert json.loads(chats["formed"].choices[0].message.content or "")["a"] in (1, 2)
    logprobs = chats["logged"].choices[0].logprobs
    assert logprobs
    assert logprobs.content
    assert len(logprobs.content[0].top_logprobs) == 2
    assert set(errors) == {"refused"}
    assert errors["refused"]["status_code"] == 400
    assert "temperature" in json.dumps(errors["refused"]["body"])


def results(client: openai.OpenAI, file_id: str | None) -> dict[str, dict[str, Any]]:
    """Responses by custom id."""
    assert file_id
    lines = map(json.loads, client.files.content(file_id).read().splitlines())
    return {value["custom_id"]: value["response"] for value in lines}

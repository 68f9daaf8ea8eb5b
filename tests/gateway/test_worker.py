"""A batch and the worker's own code meet at the storage: all but the engine is real."""

import json
import time
from pathlib import Path

import openai
import pytest
from gateway.conftest import Team
from gateway.rig import JOB_SECRET, row
from gateway.test_batches import job, start, tell
from runtime.scripted_server import ScriptedServer
from s3 import S3Server

from rowen.crds.job.batch_inference import BatchInference
from rowen.crds.job.worker import BatchSpec
from rowen.crds.names import JOB_UID_ENV
from rowen.kube.timestamps import rfc3339
from rowen.operator.jobs.worker_spec import batch_spec
from rowen.runtime.batch.results import problem_result
from rowen.runtime.batch.rows import Rows
from rowen.runtime.batch.runner import BatchRunner
from rowen.runtime.batch.store_output import StoreOutput
from rowen.runtime.native import NoTenant
from rowen.runtime.storage import credentials
from rowen.runtime.storage.inputs import local_copy
from rowen.runtime.worker import Progress

ROUTE = "/v1/completions"
COUNT = 12
REFUSED = frozenset({3, 8})


@pytest.fixture(autouse=True)
def pod(s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job's Secret as the kubelet mounts it."""
    s3_server.secret(tmp_path / "secrets" / JOB_SECRET)
    monkeypatch.setattr(credentials, "SECRETS_DIRECTORY", str(tmp_path / "secrets"))
    monkeypatch.setenv(JOB_UID_ENV, "uid")


async def begun(team: Team) -> tuple[openai.types.Batch, BatchSpec]:
    """A batch, and what the operator tells its worker."""
    body = {"model": "chat", "prompt": "Once"}
    text = "\n".join(json.dumps(row(f"row-{n}", url=ROUTE, body=body)) for n in range(1, COUNT + 1))
    file = team.client.files.create(file=("rows.jsonl", text.encode()), purpose="batch")
    batch = start(team, file.id, endpoint=ROUTE)
    spec = (await job(team, batch))["spec"]["batchInference"]
    return batch, batch_spec(BatchInference.from_wire(spec), 2**31)


def custom_ids(team: Team, file_id: str | None) -> set[str]:
    assert file_id
    lines = team.client.files.content(file_id).read().splitlines()
    found = {json.loads(line)["custom_id"] for line in lines}
    assert len(found) == len(lines), "each row once"
    return found


async def test_what_the_worker_writes_is_what_the_client_gets(team: Team) -> None:
    batch, spec = await begun(team)
    rows = Rows(local_copy(spec.input, "InputMissing"))
    output = StoreOutput(rows, spec.output, spec.errors, 1)
    await BatchRunner(ScriptedServer(REFUSED), output, Progress("rows", NoTenant()), "model").run(rows)
    output.close()
    await tell(team, batch, ("Finished", "True", "Completed"), completionTime=rfc3339(time.time()))
    ended = team.client.batches.retrieve(batch.id)
    refused = {f"row-{n}" for n in REFUSED}
    assert custom_ids(team, ended.error_file_id) == refused
    assert custom_ids(team, ended.output_file_id) == {f"row-{n}" for n in range(1, COUNT + 1)} - refused
    assert ended.request_counts
    assert ended.request_counts.failed == len(REFUSED)


async def test_what_two_attempts_wrote_is_there_when_the_time_is_over(team: Team) -> None:
    batch, spec = await begun(team)
    rows = Rows(local_copy(spec.input, "InputMissing"))
    for attempt, lines in ((1, (1, 2, 3)), (2, (4, 5))):
        output = StoreOutput(rows, spec.output, spec.errors, attempt)
        output.append([problem_result(rows.row(line), "no") for line in lines])
    await tell(team, batch, ("Finished", "True", "DeadlineExceeded"), completionTime=rfc3339(time.time()))
    ended = team.client.batches.retrieve(batch.id)
    assert (ended.status, ended.output_file_id) == ("expired", None)
    assert custom_ids(team, ended.error_file_id) == {f"row-{n}" for n in range(1, 6)}

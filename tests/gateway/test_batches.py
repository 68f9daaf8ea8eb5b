"""/v1/batches by OpenAI's own client; the test plays the operator and the worker."""

import json
import time
from typing import Any

import openai
import pytest
from accounts import rule
from gateway.conftest import Team
from gateway.rig import JOB_SECRET, MOST_ROWS, PREFIX, Gateway, row
from manifests import apply, apply_status, patch, read
from operator_process import eventually
from s3 import S3Server

from rowen.kube.timestamps import rfc3339

VERSION = "rowen.dev/v1alpha1"
RESULT = {"response": {"status_code": 200, "request_id": "r", "body": {}}, "error": None}
REFUSED = {"response": {"status_code": 400, "request_id": "r", "body": {}}, "error": None}


def start(team: Team, file_id: str, **more: Any) -> openai.types.Batch:
    """Makes a batch."""
    asked = {"endpoint": "/v1/chat/completions", "completion_window": "24h", **more}
    return team.client.batches.create(input_file_id=file_id, **asked)  # type: ignore[arg-type]


def extra(batch: openai.types.Batch) -> dict[str, Any]:
    """What only Rowen's batches have."""
    found: dict[str, Any] = batch.to_dict()["rowen"]  # type: ignore[assignment]
    return found


async def job(team: Team, batch: openai.types.Batch) -> dict[str, Any]:
    """The batch's OfflineJob."""
    found = await read(team.kube, VERSION, team.namespace, f"offlinejobs/{extra(batch)['job']}")
    assert found is not None
    return found


async def tell(team: Team, batch: openai.types.Batch, *conditions: tuple[str, str, str], **status: Any) -> None:
    """Writes the job's status, as operator and scheduler do."""
    now = rfc3339(time.time())
    told = [
        {"type": type_, "status": value, "reason": reason, "message": f"{reason} it is", "lastTransitionTime": now}
        for type_, value, reason in conditions
    ]
    manifest = {
        "apiVersion": VERSION,
        "kind": "OfflineJob",
        "metadata": {"name": extra(batch)["job"], "namespace": team.namespace},
        "status": {"conditions": told, **status},
    }
    await apply_status(team.kube, manifest, manager="test")


def lines(*results: dict[str, Any]) -> bytes:
    """Results as the worker writes them."""
    return b"".join(
        json.dumps({"id": f"batch_req_{n}", "custom_id": str(n), **result}).encode() + b"\n"
        for n, result in enumerate(results, start=1)
    )


async def test_a_batch_is_a_job_that_kubectl_shows(team: Team, upload: Any, gateway_bucket: str) -> None:
    file_id = upload(row("1"), row("2"))
    batch = start(team, file_id, completion_window="2h", metadata={"for": "docs"})
    assert (batch.status, batch.endpoint, batch.input_file_id) == ("validating", "/v1/chat/completions", file_id)
    assert (batch.metadata, batch.model, batch.output_file_id, batch.errors) == ({"for": "docs"}, "chat", None, None)
    assert batch.request_counts
    assert batch.request_counts.to_dict() == {"total": 2, "completed": 0, "failed": 0}
    assert batch.expires_at == batch.created_at + 7200
    made = await job(team, batch)
    spec = made["spec"]
    folder = f"s3://{gateway_bucket}/{PREFIX}/{team.namespace}/files"
    stem = batch.id.removeprefix("batch_")
    assert spec["activeDeadlineSeconds"] == 7200
    assert (spec["memory"], spec["memoryLimit"]) == ("2Gi", "3Gi")
    assert spec["batchInference"]["model"] == {"claimName": "models", "path": "llama-demo"}
    assert spec["batchInference"]["args"] == [
        "--max-model-len=512", "--tool-call-parser", "hermes", "--enable-auto-tool-choice"
    ]  # fmt: skip
    places = {name: spec["batchInference"][name] for name in ("input", "output", "errors")}
    assert places == {
        "input": {"uri": f"{folder}/{file_id}/requests.jsonl", "secretName": JOB_SECRET},
        "output": {"uri": f"{folder}/file-{stem}-output/{batch.id}_output.jsonl", "secretName": JOB_SECRET},
        "errors": {"uri": f"{folder}/file-{stem}-errors/{batch.id}_error.jsonl", "secretName": JOB_SECRET},
    }


async def test_the_same_batch_twice_is_two(team: Team, upload: Any) -> None:
    file_id = upload(row("1"))
    assert start(team, file_id).id != start(team, file_id).id


async def test_a_batch_through_its_life(team: Team, upload: Any, s3_server: S3Server, gateway_bucket: str) -> None:
    batch = start(team, upload(row("1"), row("2"), row("3")))
    await tell(team, batch, ("Placed", "False", "NoCapacity"), state="Pending", explanation={"message": "no device"})
    waiting = team.client.batches.retrieve(batch.id)
    assert waiting.status == "in_progress"
    assert (extra(waiting)["state"], extra(waiting)["explanation"]) == ("Pending", "no device")
    running = ("Running", "True", "Running")
    began = rfc3339(time.time())
    assignment = {
        "id": "a", "node": "n", "devices": ["d"], "predictedFraction": 0.4, "time": began,
        "lease": {"durationSeconds": 30},
    }  # fmt: skip
    progress = {"unit": "rows", "completed": 1, "total": 3}
    await tell(
        team, batch, running, assignment=assignment, startTime=began, progress={**progress, "display": "1/3"},
        throughput={"predictedTokensPerSecond": 12.5, "measuredTokensPerSecond": 11.0},
    )  # fmt: skip
    runs = team.client.batches.retrieve(batch.id)
    assert runs.status == "in_progress"
    assert runs.in_progress_at is not None
    assert extra(runs)["predicted_tokens_per_second"] == 12.5
    assert extra(runs)["measured_tokens_per_second"] == 11.0
    assert extra(runs)["promised_fraction"] == 0.4
    assert runs.request_counts
    assert runs.request_counts.completed == 1
    done = {"unit": "rows", "completed": 3, "total": 3, "display": "3/3"}
    await tell(team, batch, running, progress=done)
    assert team.client.batches.retrieve(batch.id).status == "finalizing"
    spec = (await job(team, batch))["spec"]["batchInference"]
    output, errors = lines(RESULT, RESULT), lines(REFUSED)
    for place, content in (("output", output), ("errors", errors)):
        s3_server.filesystem().pipe_file(spec[place]["uri"].removeprefix("s3://"), content)
    await tell(team, batch, ("Finished", "True", "Completed"), progress=done, completionTime=began)
    ended = team.client.batches.retrieve(batch.id)
    assert (ended.status, ended.failed_at, ended.errors) == ("completed", None, None)
    assert ended.completed_at is not None
    assert ended.request_counts
    assert ended.request_counts.to_dict() == {"total": 3, "completed": 2, "failed": 1}
    assert ended.output_file_id
    assert ended.error_file_id
    assert team.client.files.content(ended.output_file_id).read() == output
    assert team.client.files.content(ended.error_file_id).read() == errors
    told = team.client.files.retrieve(ended.output_file_id)
    assert (told.filename, told.purpose, told.bytes) == (f"{batch.id}_output.jsonl", "batch_output", len(output))
    assert {file.id for file in team.client.files.list(purpose="batch_output")} == {
        ended.output_file_id, ended.error_file_id
    }  # fmt: skip
    with pytest.raises(openai.ConflictError, match="completed"):
        team.client.batches.cancel(batch.id)


@pytest.mark.parametrize(("reason", "status"), [("InputMissing", "failed"), ("DeadlineExceeded", "expired")])
async def test_a_job_that_fails(team: Team, upload: Any, reason: str, status: str) -> None:
    batch = start(team, upload(row("1")))
    await tell(team, batch, ("Finished", "True", reason), completionTime=rfc3339(time.time()))
    ended = team.client.batches.retrieve(batch.id)
    assert ended.status == status
    assert ended.to_dict()[f"{status}_at"] is not None
    assert (ended.output_file_id, ended.error_file_id) == (None, None)
    if status == "failed":
        assert ended.errors
        assert ended.errors.data
        assert (ended.errors.data[0].code, ended.errors.data[0].message) == (reason, f"{reason} it is")
    else:
        assert ended.errors is None


async def test_a_cancelled_batch_keeps_what_is_written(
    team: Team, upload: Any, s3_server: S3Server, gateway_bucket: str
) -> None:
    batch = start(team, upload(*(row(str(n)) for n in range(5))))
    await tell(team, batch, ("Running", "True", "Running"))
    assert team.client.batches.cancel(batch.id).status == "cancelling"
    assert (await job(team, batch))["spec"]["suspend"] is True
    assert team.client.batches.cancel(batch.id).status == "cancelling", "twice is once"
    spec = (await job(team, batch))["spec"]["batchInference"]
    parts = f"{spec['output']['uri'].removeprefix('s3://')}.parts"
    author = b'{"job":"j","attempt":1,"entry":"e","kind":"results"}\n'
    for number, body in enumerate([b"", lines(RESULT, REFUSED), lines(RESULT)], start=1):
        s3_server.filesystem().pipe_file(f"{parts}/{number:08}", author + body)
    await tell(team, batch, ("Suspended", "True", "Suspended"), ("Running", "False", "Suspended"))
    ended = team.client.batches.retrieve(batch.id)
    assert ended.status == "cancelled"
    assert ended.cancelling_at is not None
    assert ended.cancelled_at is not None
    assert ended.output_file_id
    assert ended.error_file_id
    assert ended.request_counts
    assert ended.request_counts.failed == 1
    content = team.client.files.content(ended.output_file_id).read()
    assert content.splitlines() == lines(RESULT).splitlines() * 2
    assert team.client.files.retrieve(ended.output_file_id).bytes == len(content)
    assert len(team.client.files.content(ended.error_file_id).read().splitlines()) == 1
    for file_id in (ended.output_file_id, ended.error_file_id):
        with pytest.raises(openai.ConflictError, match="one log"):
            team.client.files.delete(file_id)
    assert team.client.files.content(ended.output_file_id).read() == content, "both are in one log"


async def test_batches_are_listed_page_by_page(team: Team, upload: Any, gateway: Gateway) -> None:
    file_id = upload(row("1"))
    newest = [start(team, file_id).id for _ in range(5)][::-1]
    await team.add("OfflineJob", "other", {"template": {"spec": {"containers": [{"name": "a", "image": "a:1"}]}}})
    assert [batch.id for batch in team.client.batches.list()] == newest
    assert [batch.id for batch in team.client.batches.list(limit=2)] == newest, "the client asks for the next page"
    page = team.client.batches.list(limit=2, after=newest[1])
    assert ([batch.id for batch in page.data], page.has_more) == (newest[2:4], True)
    with pytest.raises(openai.BadRequestError):
        team.client.batches.list(after="batch_nothing")
    with pytest.raises(openai.BadRequestError, match="limit"):
        team.client.batches.list(limit=0)


async def test_what_somebody_did_to_a_job_hides_no_other_batch(team: Team, upload: Any) -> None:
    file_id = upload(row("1"))
    first, second = start(team, file_id), start(team, file_id)
    url = f"offlinejobs/{extra(first)['job']}"
    await patch(team.kube, VERSION, team.namespace, url, {"metadata": {"annotations": {"rowen.dev/batch": "{"}}})
    assert [batch.id for batch in team.client.batches.list()] == [second.id]
    with pytest.raises(openai.NotFoundError):
        team.client.batches.retrieve(first.id)


@pytest.mark.parametrize(
    ("rows", "code", "line", "param"),
    [
        ([row("1"), "{"], "invalid_json_line", 2, None),
        ([row("1"), "[1]"], "invalid_json_line", 2, None),
        (["[" * 100_000], "invalid_json_line", 1, None),
        ([row("1"), row("2"), row("1")], "duplicate_custom_id", 3, "custom_id"),
        ([row("1"), row("")], "invalid_custom_id", 2, "custom_id"),
        ([row("1", method="GET")], "invalid_method", 1, "method"),
        ([row("1", url="/v1/completions")], "invalid_url", 1, "url"),
        ([row("1"), row("2", model="other")], "mismatched_model", 2, "body.model"),
        ([row("1", body={})], "missing_model", 1, "body.model"),
        ([row("1", body=[])], "invalid_body", 1, "body"),
        ([row("1", body={"model": "chat", "stream": True})], "invalid_body", 1, "body.stream"),
        ([row(str(n)) for n in range(MOST_ROWS + 1)], "too_many_rows", MOST_ROWS + 1, None),
        ([""], "empty_file", None, None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_file_that_is_no_batch_is_refused_by_line(
    team: Team, upload: Any, rows: list[Any], code: str, line: int | None, param: str | None
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        start(team, upload(*rows))
    assert (caught.value.param, caught.value.code, caught.value.type) == (
        "input_file_id", code, "invalid_request_error"
    )  # fmt: skip
    assert isinstance(caught.value.body, dict)
    (fault,) = caught.value.body["data"]
    assert (fault["code"], fault["line"], fault["param"]) == (code, line, param)
    assert list(team.client.batches.list()) == [], "nothing is left of it"


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"endpoint": "/v1/images/edits"}, "endpoint"),
        ({"completion_window": "soon"}, "completion_window"),
        ({"completion_window": "0h"}, "completion_window"),
        ({"metadata": {str(n): "" for n in range(17)}}, "metadata"),
        ({"metadata": {"a": "x" * 513}}, "metadata.a"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 3600}}, "output_expires_after"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_field_that_is_wrong_is_named(team: Team, upload: Any, changes: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        start(team, upload(row("1")), **changes)
    assert caught.value.param == param


async def test_a_file_has_to_be_an_upload_of_this_namespace(team: Team) -> None:
    for wrong in ("file-1", f"file-{'0' * 27}", f"file-{'0' * 27}-output", "../x"):
        with pytest.raises(openai.BadRequestError) as caught:
            start(team, wrong)
        assert caught.value.param == "input_file_id"


async def test_an_unknown_model_is_refused_with_those_that_there_are(team: Team, upload: Any) -> None:
    reference = {"kind": "Deployment", "name": "mine"}
    slo = {"ttft": {"target": "500ms"}, "tpot": {"target": "50ms"}}
    await team.add("OnlineService", "adopted", {"workloadRef": reference, "slo": slo})
    with pytest.raises(openai.BadRequestError, match="there are: chat") as caught:
        start(team, upload(row("1", model="gpt-4o")))
    assert (caught.value.param, caught.value.code) == ("body.model", "model_not_found")
    with pytest.raises(openai.BadRequestError, match="adopted"):
        start(team, upload(row("1", model="adopted")))


async def test_a_right_to_read_is_none_to_submit_or_cancel(team: Team, upload: Any, gateway: Gateway) -> None:
    batch = start(team, upload(row("1")))
    token = await team.user("ben", rule("rowen.dev", ["offlinejobs"], ["get", "list"]))
    reader = gateway.client(token, team.namespace)
    assert reader.batches.retrieve(batch.id).id == batch.id
    with pytest.raises(openai.PermissionDeniedError):
        reader.batches.cancel(batch.id)
    with pytest.raises(openai.PermissionDeniedError):
        reader.batches.create(
            input_file_id=batch.input_file_id, endpoint="/v1/chat/completions", completion_window="24h"
        )


async def test_another_namespaces_batches_are_not_there(team: Team, upload: Any, gateway: Gateway) -> None:
    batch = start(team, upload(row("1")))
    for ask in (
        lambda c: c.batches.list(),
        lambda c: c.batches.retrieve(batch.id),
        lambda c: c.batches.cancel(batch.id),
    ):
        with pytest.raises(openai.PermissionDeniedError):
            ask(gateway.client(team.token, "default"))


async def test_a_job_that_the_cluster_refuses_is_no_batch(team: Team, upload: Any) -> None:
    """As a quota does: its words are the answer."""
    hard = {"count/offlinejobs.rowen.dev": "0"}
    meta = {"name": "none", "namespace": team.namespace}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta}
    await apply(team.kube, {**quota, "spec": {"hard": hard}}, manager="test")
    # The controller that counts is not here.
    await apply_status(team.kube, {**quota, "status": {"hard": hard, "used": hard}}, manager="test")
    file_id = upload(row("1"))

    async def refused() -> str | None:
        try:
            start(team, file_id)
        except openai.PermissionDeniedError as error:
            return error.message
        return None

    assert "quota" in await eventually(refused)
    assert team.client.files.retrieve(file_id).id == file_id


async def test_what_a_worker_writes_after_the_end_is_seen(team: Team, upload: Any, s3_server: S3Server) -> None:
    """Its pod has some seconds when the time is over."""
    batch = start(team, upload(row("1")))
    await tell(team, batch, ("Finished", "True", "DeadlineExceeded"), completionTime=rfc3339(time.time()))
    assert team.client.batches.retrieve(batch.id).output_file_id is None
    spec = (await job(team, batch))["spec"]["batchInference"]
    author = b'{"job":"j","attempt":1,"entry":"e","kind":"results"}\n'
    part = f"{spec['output']['uri'].removeprefix('s3://')}.parts/00000001"
    s3_server.filesystem().pipe_file(part, author + lines(RESULT))
    assert team.client.batches.retrieve(batch.id).output_file_id

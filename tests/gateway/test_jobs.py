"""A batch as an OfflineJob."""

import json

import pytest
from pydantic import ValidationError

from rowen.crds.job.job_rules import broken_rules
from rowen.crds.job.offline_job import OfflineJobSpec
from rowen.crds.service.online_service import Engine
from rowen.gateway.jobs import (
    BATCH_ANNOTATION,
    LABEL,
    Addresses,
    BatchRecord,
    BatchRequest,
    batch_job,
    own_args,
    record_of,
    window_seconds,
)

RECORD = BatchRecord(
    input_file_id="f", endpoint="/v1/score", completion_window="3m", metadata={"ü": "x"}, model="chat", rows=2
)
ADDRESSES = Addresses(input="s3://b/in", output="s3://b/out", errors="s3://b/err", secret_name="own")
MODEL = {"hugging_face": {"repo": "a/b", "revision": "c"}, "secret_name": "hub"}


@pytest.mark.parametrize(("window", "seconds"), [("24h", 86400), ("1m", 60), ("7d", 604800), ("99999m", 5999940)])
def test_windows(window: str, seconds: int) -> None:
    assert window_seconds(window) == seconds
    assert BatchRequest(input_file_id="f", endpoint="e", completion_window=window).metadata is None


@pytest.mark.parametrize("window", ["", "24", "0h", "01h", "1s", "1.5h", "24h ", "-1h", "100000m"])
def test_what_is_no_window(window: str) -> None:
    with pytest.raises(ValueError):
        window_seconds(window)
    with pytest.raises(ValidationError):
        BatchRequest(input_file_id="f", endpoint="e", completion_window=window)


def test_the_job_is_one_that_the_api_server_takes() -> None:
    engine = Engine(model=MODEL, memory="2Gi", memory_limit="3Gi", args=["--port=1", "--seed", "1"])
    manifest = batch_job("ns", "batch-1", RECORD, engine, ADDRESSES)
    spec = OfflineJobSpec.from_wire(manifest["spec"])
    assert broken_rules(spec) == []
    assert (spec.memory, spec.memory_limit, spec.priority, spec.sla) == ("2Gi", "3Gi", 0, None)
    assert spec.active_deadline_seconds == 180
    batch = spec.batch_inference
    assert batch is not None
    assert (batch.model, batch.args, batch.adapter) == (engine.model, ["--seed", "1"], None)
    assert [(place.uri, place.secret_name) for place in (batch.input, batch.output, batch.errors) if place] == [
        ("s3://b/in", "own"), ("s3://b/out", "own"), ("s3://b/err", "own")
    ]  # fmt: skip
    metadata = manifest["metadata"]
    assert (metadata["namespace"], metadata["name"], metadata["labels"]) == ("ns", "batch-1", {LABEL: "true"})
    assert record_of(metadata) == RECORD


def test_without_a_limit_and_a_secret_there_is_none() -> None:
    addresses = ADDRESSES.model_copy(update={"secret_name": None})
    spec = batch_job("ns", "n", RECORD, Engine(model=MODEL), addresses)["spec"]
    assert "memoryLimit" not in spec
    assert spec["batchInference"]["input"] == {"uri": "s3://b/in"}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "[" * 200_000, json.dumps({"completionWindow": "soon"})])
def test_what_is_no_record(text: str) -> None:
    assert record_of({"annotations": {BATCH_ANNOTATION: text}}) is None
    assert record_of({}) is None
    assert record_of({"annotations": None}) is None


@pytest.mark.parametrize(
    ("args", "kept"),
    [
        (["--a", "1", "--b=2"], ["--a", "1", "--b=2"]),
        (["--port", "9000", "--a"], ["--a"]),
        (["--port=9000", "--a"], ["--a"]),
        (["--a", "--tensor_parallel_size", "2"], ["--a"]),
        (["-tp", "2", "x", "--a", "y"], ["--a", "y"]),
        (["x"], ["x"]),
        ([], []),
    ],
)
def test_what_a_batch_decides_is_left_out_with_its_value(args: list[str], kept: list[str]) -> None:
    assert own_args(args) == kept

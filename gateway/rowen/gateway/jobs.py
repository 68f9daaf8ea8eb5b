"""A batch as an OfflineJob. Pure.

What OpenAI's API knows of a batch and an OfflineJob does not is in annotations; that it is one, a label says.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from rowen.crds.base import ReadModel
from rowen.crds.names import API_VERSION
from rowen.crds.service.engine_args import decided_args
from rowen.crds.service.online_service import Engine

LABEL = "rowen.dev/batch-api"
BATCH_ANNOTATION = "rowen.dev/batch"
CANCELLED_ANNOTATION = "rowen.dev/batch-cancelled"

ENDPOINTS = (
    "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings", "/v1/score", "/v1/rerank",
)  # fmt: skip
"""Those of vLLM that answer a batch."""
_UNIT_SECONDS = {"m": 60, "h": 3600, "d": 86400}
_WINDOW = re.compile(r"([1-9][0-9]{0,4})([mhd])")


class BatchRequest(BaseModel):
    """What creates a batch; fields as OpenAI has them."""

    model_config = ConfigDict(extra="forbid")

    input_file_id: Annotated[str, Field(max_length=128)]
    endpoint: Annotated[str, Field(max_length=64)]
    completion_window: Annotated[str, Field(pattern=rf"^{_WINDOW.pattern}$")]
    metadata: (
        Annotated[
            dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]], Field(max_length=16)
        ]
        | None
    ) = None


class BatchRecord(ReadModel):
    """The annotation, as JSON."""

    input_file_id: str
    endpoint: str
    completion_window: Annotated[str, Field(pattern=rf"^{_WINDOW.pattern}$")]
    metadata: dict[str, str] | None = None
    model: str
    """The OnlineService that the rows name."""
    rows: int


class Addresses(ReadModel):
    """Where the job reads and writes."""

    input: str
    output: str
    errors: str
    secret_name: str | None = None
    """Secret of the job's namespace."""


def window_seconds(window: str) -> int:
    """Seconds of a completion window: a number and one of m, h, d. Raises `ValueError`."""
    match = _WINDOW.fullmatch(window)
    if match is None:
        raise ValueError(f"{window!r} is no window")
    return int(match[1]) * _UNIT_SECONDS[match[2]]


def batch_job(namespace: str, name: str, record: BatchRecord, engine: Engine, addresses: Addresses) -> dict[str, Any]:
    """The OfflineJob: it answers as the service's engine does, with as much memory, until its window is over."""
    secret = {"secretName": addresses.secret_name} if addresses.secret_name else {}
    places = {
        role: {"uri": uri, **secret}
        for role, uri in (("input", addresses.input), ("output", addresses.output), ("errors", addresses.errors))
    }
    batch = {"model": engine.model.to_wire(), **places, "args": own_args(engine.args)}
    limit = {"memoryLimit": engine.memory_limit} if engine.memory_limit else {}
    return {
        "apiVersion": API_VERSION,
        "kind": "OfflineJob",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": {LABEL: "true"},
            "annotations": {BATCH_ANNOTATION: json.dumps(record.to_wire())},
        },
        "spec": {
            "batchInference": batch,
            "memory": engine.memory,
            **limit,
            "activeDeadlineSeconds": window_seconds(record.completion_window),
        },
    }


def record_of(metadata: Mapping[str, Any]) -> BatchRecord | None:
    """The record of a job's metadata; None of a job that is no batch, or whose annotation somebody has changed."""
    text = (metadata.get("annotations") or {}).get(BATCH_ANNOTATION)
    try:
        return BatchRecord.from_wire(json.loads(text)) if text else None
    except (ValueError, RecursionError):
        return None


def own_args(args: Sequence[str]) -> list[str]:
    """An engine's arguments without those that a batch decides, and without their values."""
    kept: list[str] = []
    dropping = False
    for arg in args:
        if arg.startswith("-"):
            dropping = bool(decided_args([arg]))
        if not dropping:
            kept.append(arg)
    return kept

"""What the models say of co-serving, without an API server."""

import re

import pytest

from rowen.crds.job.offline_job_status import Assignment
from rowen.crds.job.place import ModelSource
from rowen.crds.ride.terms import LatencyBound, RideTerms
from rowen.crds.service.engine_args import CO_SERVE_PATTERN
from rowen.crds.service.online_service import Harvest


def test_jobs_ride_only_where_the_service_says_so() -> None:
    assert Harvest().mode == "Preempt"
    assert Harvest.from_wire({"mode": "CoServe"}).co_serve.memory == "2Gi"
    assert Harvest.from_wire({"mode": "Spatial"}).mode == "Spatial"


def test_prompts_wait_only_where_the_service_says_so() -> None:
    assert not Harvest.from_wire({"mode": "CoServe"}).co_serve.defer_prefills
    assert Harvest.from_wire({"mode": "CoServe", "coServe": {"deferPrefills": True}}).co_serve.defer_prefills


def test_terms_say_nothing_of_it_to_those_that_do_not_know_it() -> None:
    bound = LatencyBound(percentile=99, seconds=1)
    assert not RideTerms.from_wire({"ttft": bound, "tpot": bound, "memoryBytes": 1}).defer_prefills
    # An older engine passes over what it does not know.
    assert RideTerms.from_wire({"ttft": bound, "tpot": bound, "memoryBytes": 1, "newer": True}).memory_bytes == 1


@pytest.mark.parametrize(
    "arg",
    [
        "--no-enforce-eager",
        "--tensor_parallel_size=2",
        "-tp",
        "-O",
        "-O3",
        "-O.mode=3",
        "-cc",
        "--quantization",
        "-q=fp8",
    ],
)
def test_arguments_that_contradict(arg: str) -> None:
    assert re.match(CO_SERVE_PATTERN, arg)


@pytest.mark.parametrize(
    "arg", ["--enforce-eager", "--enable-lora", "--max-model-len=512", "--model-impl", "-Other", "2"]
)
def test_arguments_that_do_not(arg: str) -> None:
    assert not re.match(CO_SERVE_PATTERN, arg)


def _hub(revision: str, secret: str | None = None) -> ModelSource:
    return ModelSource.from_wire({"huggingFace": {"repo": "a/b", "revision": revision}, "secretName": secret})


def _store(secret: str, end: str = "") -> ModelSource:
    return ModelSource.from_wire({"uri": f"s3://models/tiny{end}", "secretName": secret})


def test_the_same_model() -> None:
    on_claim = [ModelSource(claim_name="models", path=path) for path in ("tiny", "./tiny/", "x/../tiny", "tiny//.")]
    assert {model.reference for model in on_claim} == {"models/tiny"}
    assert ModelSource(uri="s3://b/m").reference == ModelSource(uri="s3://b/m/").reference
    assert _hub("main").reference == _hub("main", "token").reference
    assert _store("minio").reference == _store("minio", "/").reference


def test_other_models() -> None:
    models = [
        ModelSource(claim_name="models", path="tiny"),
        ModelSource(claim_name="models", path="tiny2"),
        ModelSource(claim_name="other", path="tiny"),
        ModelSource(uri="s3://models/tiny"),
        # The Secret may name a server other than Amazon's.
        _store("minio"),
        _store("other"),
        _hub("main"),
        _hub("v1"),
    ]
    assert len({model.reference for model in models}) == len(models)


def test_an_assignment_without_a_mode_is_of_the_jobs_own_pod() -> None:
    wire = {
        "id": "a", "node": "n", "devices": ["cpu0"], "predictedFraction": 0.5, "time": "2026-01-01T00:00:00Z",
        "lease": {"durationSeconds": 30},
    }  # fmt: skip
    assert not Assignment.from_wire(wire).rides
    assert Assignment.from_wire({**wire, "mode": "CoServe"}).rides
    assert not Assignment.from_wire({**wire, "mode": "Spatial"}).rides

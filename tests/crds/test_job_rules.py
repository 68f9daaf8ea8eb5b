"""The rules across a job's fields, held against the API server's own by the same examples."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from crds.test_refused import ACCEPTED, ALIKE, REFUSED, Manifest
from pydantic import ValidationError
from samples import BATCH, TEMPLATE, changed, offline_job

from rowen.crds.definition.schema import structural_schema, walk
from rowen.crds.job.job_rules import broken_rules
from rowen.crds.job.offline_job import OfflineJobSpec

BY_THE_API_SERVER = (
    "name too long for a label",
    "a variable twice in a pod template",
    "a volume twice in a pod template",
)
"""Of the object, not of its spec; and lists with one entry for each key."""
JOBS = [
    (name, job, told) for name, job, told in REFUSED if job["kind"] == "OfflineJob" and name not in BY_THE_API_SERVER
]
BY_THE_MODEL = {"exactly one of claimName, uri, huggingFace must be set"}
"""What parsing refuses."""


def read(manifest: Manifest) -> OfflineJobSpec:
    return OfflineJobSpec.model_validate_json(json.dumps(manifest["spec"]), strict=True)


@pytest.mark.parametrize(("manifest", "told"), [case[1:] for case in JOBS], ids=[case[0] for case in JOBS])
def test_what_the_api_server_refuses_is_refused(manifest: Manifest, told: str) -> None:
    try:
        broken = broken_rules(read(manifest))
    except ValidationError:
        return
    # The API server's words: the field, something of its own, and the rule's message.
    expected = told.removeprefix("spec: ").removeprefix("spec.")
    field, _, message = expected.rpartition(": .*") if ": .*" in expected else expected.rpartition(".*")
    assert any(re.match(field, line) and re.search(message, line) for line in broken), broken


GOOD = [
    *((name, job) for name, job in (*ACCEPTED, *ALIKE) if job["kind"] == "OfflineJob"),
    ("a template", offline_job(fineTune=None, template=TEMPLATE)),
    ("a batch", offline_job(fineTune=None, batchInference=BATCH)),
]


@pytest.mark.parametrize("manifest", [case[1] for case in GOOD], ids=[case[0] for case in GOOD])
def test_what_the_api_server_takes_is_taken(manifest: Manifest) -> None:
    assert broken_rules(read(manifest)) == []


def declared() -> Iterator[str]:
    """Messages of the CEL rules that hold for a new job."""
    found: list[dict[str, Any]] = []
    walk(structural_schema(OfflineJobSpec, defaults=True), lambda _, node: found.append(node))
    for node in found:
        for rule in node.get("x-kubernetes-validations", []):
            if "oldSelf" not in rule["rule"]:
                yield rule["message"]


def test_every_rule_is_known_and_no_other_is_made_up() -> None:
    """Each CEL rule is broken by an example that the API server refuses for it, and told in its words."""
    told = set()
    for _, manifest, _ in JOBS:
        try:
            told |= {line.rpartition(": ")[2] for line in broken_rules(read(manifest))}
        except ValidationError:
            continue
    wanted = {message.rpartition(": ")[2] for message in declared()} - BY_THE_MODEL
    assert told == wanted


def test_a_rule_inside_of_the_spec_names_its_field() -> None:
    job = changed(offline_job(), "spec.fineTune.dataset.path", "a/../../x")
    assert broken_rules(read(job)) == ["fineTune.dataset: path must not contain '..'"]
    assert broken_rules(read(offline_job(fineTune=None))) == [
        "exactly one of fineTune, batchInference, template must be set"
    ]

"""`whatif`: a job that is not there yet, put to the scheduler."""

import asyncio
import json
import sys
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from rowen.crds.names import API_VERSION, WORKER_CONTAINER, WORKER_CPU
from rowen.crds.pod.pod_overlay import overlaid_worker, told_of, user_template
from rowen.crds.pod.template_pod import template_pod_spec
from rowen.kube.client import Client, Raw
from rowen.kube.errors import RefusedError
from rowen.kube.kinds import OFFLINE_JOBS, PODS
from rowen.kube.objects import NOT_FOUND, create
from rowen.kube.pauses import pause_seconds
from rowen.kube.resource import Resource
from rowen.scheduler.cli.lookup import left_alone
from rowen.scheduler.cli.session import FORBIDDEN, CommandError, checked
from rowen.scheduler.serve.messages import (
    MOST_ADDED,
    MOST_TOLD,
    TOKEN_HEADER,
    CandidateReply,
    HypotheticalJob,
    WhatIf,
    faults,
)

_MOST_CHARACTERS = 2**18
_ANSWER_SECONDS = 12.0
_BUSY, _TRIES, _LONGEST_PAUSE_SECONDS = 503, 3, 5.0
"""Too many ask it, or it has no view of the cluster yet."""
_TOKEN_SECONDS = 600
"""The shortest life of a token that the API server gives."""
_REACH = "ask for the Role rowen-scheduler-caller of the scheduler's namespace (docs/install.md)"
_CONFLICT = 409
_WORKER: Raw = {
    "restartPolicy": "Never",
    "containers": [{"name": WORKER_CONTAINER, "image": "worker", "resources": {"requests": {"cpu": WORKER_CPU}}}],
}
"""What a worker's pod has in all jobs, as far as a podTemplate can contradict it."""
_METADATA = {"namespace", "name"}


@dataclass(frozen=True)
class Manifest:
    """A file, or what came in, and what it is called in a message."""

    name: str
    text: str


@dataclass(frozen=True)
class Draft:
    """A job of a manifest."""

    where: str
    """Which document of which file it is."""
    job: HypotheticalJob
    manifest: Raw
    """As it would be created."""


def read_jobs(manifest: Manifest, namespace: str | None, context: str) -> list[Draft]:
    """The jobs of a YAML or JSON text.

    Those without a namespace get `namespace`, or else the context's; those with another one than that are refused.

    Raises:
        CommandError: It names file, document and field.
    """
    name, text = manifest.name, manifest.text
    try:
        documents = [found for found in yaml.safe_load_all(text) if found is not None]
    except (yaml.YAMLError, RecursionError) as error:
        raise CommandError(f"{name}: no YAML: {' '.join(str(error).split())}") from error
    if not documents:
        raise CommandError(f"{name}: there is no OfflineJob in it")
    if len(documents) > MOST_ADDED:
        raise CommandError(f"{name}: {len(documents)} jobs, at most {MOST_ADDED} are looked at together")
    several = len(documents) > 1
    return [
        _job(f"{name}: document {number}" if several else name, found, namespace, context)
        for number, found in enumerate(documents, 1)
    ]


def read_file(file: str) -> Manifest:
    """A file's text, `-` for standard input. Raises `CommandError`."""
    name = "standard input" if file == "-" else file
    try:
        if file == "-":
            text = sys.stdin.read(_MOST_CHARACTERS + 1)
        else:
            with Path(file).open(encoding="utf-8") as opened:
                text = opened.read(_MOST_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{name}: cannot be read: {getattr(error, 'strerror', None) or 'no text'}") from error
    if len(text) > _MOST_CHARACTERS:
        raise CommandError(f"{name}: longer than {_MOST_CHARACTERS} characters")
    return Manifest(name, text)


def _job(where: str, found: object, namespace: str | None, context: str) -> Draft:
    if not isinstance(found, dict):
        raise CommandError(f"{where}: no object, expected an OfflineJob")
    kind = found.get("apiVersion"), found.get("kind")
    if kind != (API_VERSION, "OfflineJob"):
        raise CommandError(f"{where}: {kind[0]} {kind[1]}, expected {API_VERSION} OfflineJob")
    meta = found.get("metadata")
    if not isinstance(meta, dict) or not isinstance(found.get("spec"), dict):
        raise CommandError(f"{where}: metadata and spec have to be objects")
    own = meta.get("namespace")
    if own and namespace and own != namespace:
        raise CommandError(f"{where}: metadata.namespace is {own}, not {namespace}")
    named = {"namespace": own or namespace or context, "name": meta.get("name") or "hypothetical"}
    # Of what YAML knows and JSON does not, such as a date, the API takes the text.
    text = json.dumps({**named, "spec": found["spec"]}, default=str)
    try:
        job = HypotheticalJob.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise CommandError(f"{where}: {'; '.join(_told(*fault) for fault in faults(error))}") from error
    alone = left_alone(found["spec"])
    if alone is not None:
        raise CommandError(f"{where}: spec.managedBy: {alone}")
    manifest = {**found, "metadata": {**meta, "namespace": job.namespace, "name": job.name}}
    return Draft(where, job, json.loads(json.dumps(manifest, default=str)))


def _told(field: str, fault: str) -> str:
    return f"metadata.{field}: {fault}" if field in _METADATA else f"{field}: {fault}"


async def check(client: Client, draft: Draft) -> None:
    """Has the API server say whether it would take the job, and what its user says of its pod, by a pod of that kind.

    Both where the user may create such objects.

    Raises `CommandError`, `KubeError`.
    """
    refusal = await _refusal(client, OFFLINE_JOBS, draft.manifest)
    if refusal is not None:
        raise CommandError(f"{draft.where}: the API server would refuse it: {refusal}") from refusal
    spec = draft.job.spec
    if spec.template is None and spec.pod_template is None:
        return
    pod = _pod(draft.job)
    refusal = await _refusal(client, PODS, pod)
    # Another refusal, such as a quota's, may be over when the pod is made; by these the operator ends the job.
    if refusal is not None and refusal.invalid:
        field = "spec.podTemplate" if spec.template is None else "spec.template"
        told = told_of(refusal.message, field, pod["spec"], user_template(spec).get("spec") or {})
        raise CommandError(
            f"{draft.where}: {field}: the API server would refuse its pod, and the job would end as "
            f"InvalidTemplate: {told}"
        ) from refusal


async def _refusal(client: Client, resource: Resource, manifest: Raw) -> RefusedError | None:
    """Of a dry run; None too where the user may not create such objects."""
    try:
        await create(client, resource, manifest, manager="kubectl-rowen", dry_run=True)
    except RefusedError as error:
        # That there is one already is found out last.
        if error.status == _CONFLICT or error.lacks_right:
            return None
        return error
    return None


def _pod(job: HypotheticalJob) -> Raw:
    """The pod of the first attempt, on any node; of a worker, one that has what its user may say something of."""
    own = user_template(job.spec).get("metadata") or {}
    meta = {name: own[name] for name in ("labels", "annotations") if own.get(name)}
    spec = overlaid_worker(_WORKER, job.spec) if job.spec.template is None else template_pod_spec(job.spec)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**meta, "name": f"{job.name}-1", "namespace": job.namespace},
        "spec": spec,
    }


def split_service(given: str) -> tuple[str, str]:
    """Namespace and name of the scheduler's Service. Raises `CommandError`."""
    namespace, slash, name = given.partition("/")
    if not slash:
        raise CommandError(f"{given!r} is no NAMESPACE/NAME of the scheduler's Service")
    return checked("namespace", namespace), checked("name of a Service", name)


async def caller_token(client: Client, account: str | None, namespace: str) -> str:
    """The user's own token, or one of a service account in the namespace. Raises `CommandError`, `KubeError`."""
    if account is not None:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{checked('name of a service account', account)}/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        try:
            answer = await client.call("POST", path, body={**asked, "spec": {"expirationSeconds": _TOKEN_SECONDS}})
        except RefusedError as error:
            if error.status != NOT_FOUND:
                raise
            raise CommandError(f"there is no service account {account} in namespace {namespace}") from error
        return str(answer["status"]["token"])
    token = await client.token()
    if token is None:
        raise CommandError(
            "your kubeconfig says who you are by a client certificate, which the scheduler cannot check: name a service"
            f" account of namespace {namespace} that may list offlinejobs there, with --service-account"
        )
    return token


async def ask(client: Client, service: str, token: str, method: str, path: str, body: WhatIf | None) -> dict[str, Any]:
    """The scheduler's answer, through the API server's proxy of its Service. Raises `CommandError`, `KubeError`.

    The proxy keeps `Authorization` for itself, so the token goes in a header of its own.
    """
    namespace, name = split_service(service)
    url = f"/api/v1/namespaces/{namespace}/services/https:{name}:https/proxy{path}"
    sent = None if body is None else body.to_wire()
    for failures in count(1):
        try:
            return await client.call(
                method, url, body=sent, headers={TOKEN_HEADER: token}, timeout_seconds=_ANSWER_SECONDS
            )
        except RefusedError as error:
            # The API server's own answers have a reason.
            if error.reason and error.status == FORBIDDEN:
                raise CommandError(f"the API server answers: {error}; {_REACH}") from error
            if error.reason:
                raise
            if error.status != _BUSY or failures >= _TRIES:
                raise CommandError(f"the scheduler answers: {_detail(error)}") from error
            await asyncio.sleep(pause_seconds(error, failures, first=1.0, most=_LONGEST_PAUSE_SECONDS))
    raise AssertionError("it counts for ever")


async def candidates(client: Client, service: str, token: str, namespace: str, name: str) -> list[CandidateReply]:
    """Every candidate of a job, page by page. Raises `CommandError`, `KubeError`."""
    found: dict[tuple[str, ...], CandidateReply] = {}
    for offset in count(0, MOST_TOLD):
        path = f"/v1/explain/{namespace}/{name}?limit={MOST_TOLD}&offset={offset}"
        answer = await ask(client, service, token, "GET", path, None)
        page = list(map(CandidateReply.from_wire, (answer.get("explanation") or {}).get("candidates", [])))
        # Each page is of its own moment: one may tell again of what has moved down since the last.
        found |= {(one.node, *one.devices): one for one in page}
        if len(page) < MOST_TOLD:
            break
    return list(found.values())


def _detail(error: RefusedError) -> str:
    head, _, rest = error.message.partition(": ")
    try:
        detail = json.loads(rest)["detail"]
    except (ValueError, KeyError, TypeError):
        return error.message
    return detail if isinstance(detail, str) else f"{head}: {detail}"

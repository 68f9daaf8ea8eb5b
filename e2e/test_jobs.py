"""Jobs as their users have them: models, data and results in S3, chats, OpenAI's client, and workers killed."""

import json
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import openai
import pytest
from kit import containers, manifests
from kit.jobs import tiny
from kit.jobs.answers import check_answers, results
from kit.jobs.bucket import SECRET, Bucket
from kit.jobs.gateway import JOB_SECRET, Gateway
from kit.jobs.gateway import running as gateway_running
from kit.kubectl import apply, condition, delete, get, items, kubectl, wait_condition, wait_until
from kit.probes import probed
from s3 import BINARIES, S3Server

from rowen.cluster.layout import HOST_ADDRESS
from rowen.demo.cluster.install import Images

NAMESPACE, SERVICE = "rowen-e2e", "stored"
USER = "ann"
JOB_SECONDS = 300
ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")


@pytest.fixture(scope="module")
def bucket(workspace: Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """A bucket with models and data, and the Secret for it in the namespace."""
    if "rowen-node-1" not in kubectl("get", "nodes", "-o", "name"):
        pytest.skip("pods reach this machine's S3 server on the local cluster")
    if not (BINARIES / "versitygw").exists():
        pytest.skip(f"no versitygw in {BINARIES}: `make tools` makes it")
    folder = tmp_path_factory.mktemp("s3")
    server = S3Server(folder, HOST_ADDRESS)
    try:
        made = Bucket(server, f"e2e-{uuid.uuid4().hex[:8]}")
        llama = tiny.llama(folder / "llama")
        made.upload(llama, "models/llama")
        made.upload(tiny.bert(folder / "bert", llama), "models/bert")
        made.write("data/chats.jsonl", tiny.chats(64))
        apply(made.secret(SECRET, NAMESPACE))
        yield made
    finally:
        server.kill()


@pytest.fixture(scope="module")
def service(bucket: Bucket) -> Iterator[str]:
    """A service whose engine has its model out of the bucket. Its name."""
    made = manifests.online_service(SERVICE, NAMESPACE, "")
    made["spec"]["engine"]["model"] = bucket.place("models/llama")
    apply(made)
    wait_condition("osvc", SERVICE, NAMESPACE, "Ready", timeout_seconds=300)
    wait_condition("osvc", SERVICE, NAMESPACE, "HarvestEnabled", timeout_seconds=60)
    yield SERVICE
    delete("osvc", SERVICE, NAMESPACE)


def test_an_engine_out_of_s3_answers(service: str) -> None:
    address = (get("service", service, NAMESPACE) or {})["spec"]["clusterIP"]
    answers = {}
    for row in tiny.mixed(1, model=service, max_tokens=40):
        answer = httpx.post(f"http://{address}:8000{row['url']}", json=row["body"], timeout=60, trust_env=False)
        answers[row["custom_id"]] = {"response": {"status_code": answer.status_code, "body": answer.json()}}
    check_answers(answers)


def _tuning(name: str, bucket: Bucket, output: str) -> dict[str, Any]:
    return manifests.job(
        name,
        NAMESPACE,
        {
            "fineTune": {
                "baseModel": bucket.place("models/llama"),
                "dataset": bucket.place("data/chats.jsonl"),
                "output": bucket.place(output),
                "assistantOnlyLoss": True,
                "lora": {"rank": 4, "targetModules": ["q_proj", "v_proj"], "dropout": 0.1},
                "epochs": 20,
                "checkpointSteps": 10,
            }
        },
    )


def _worker(job: str) -> dict[str, Any]:
    """The pod of a job's attempt that has not ended."""
    pods = items("pods", NAMESPACE, f"rowen.dev/job={job}")
    (pod,) = [pod for pod in pods if pod["status"]["phase"] == "Running"]
    return pod


def _completed(job: str) -> dict[str, Any]:
    """The status of a job that has come to its end."""
    finished = wait_condition("ojob", job, NAMESPACE, "Finished", timeout_seconds=JOB_SECONDS)
    assert finished["reason"] == "Completed", finished
    return dict((get("ojob", job, NAMESPACE) or {})["status"])


def _kept(bucket: Bucket, log: str, kind: str) -> bytes | None:
    """The first entry of a kind in the log of an output in the bucket."""
    for name in bucket.names(log):
        # It may be gone since it was listed.
        with suppress(FileNotFoundError):
            head, _, body = bucket.read(f"{log}/{name}").partition(b"\n")
            if json.loads(head)["kind"] == kind:
                return body
    return None


@pytest.fixture(scope="module")
def adapter(service: str, bucket: Bucket) -> Iterator[str]:
    """A tuned adapter, whose worker was killed; its path."""
    jobs = {"killed": "adapters/killed", "undisturbed": "adapters/undisturbed"}
    try:
        apply(*(_tuning(name, bucket, output) for name, output in jobs.items()))
        log = "adapters/killed/checkpoints"
        wait_until(lambda: _kept(bucket, log, "checkpoint"), "a checkpoint is there", JOB_SECONDS, 0.1)
        containers.kill(_worker("killed"))
        assert not bucket.names("adapters/killed/metrics.json"), "it was done before it was killed"
        assert [_completed(name).get("failures", 0) for name in jobs] == [1, 0]
        yield jobs["killed"]
    finally:
        for name in jobs:
            delete("ojob", name, NAMESPACE)


def test_a_tuning_job_that_was_killed_ends_with_the_same_bytes(adapter: str, bucket: Bucket) -> None:
    assert '"event": "resumed"' in kubectl("logs", "-n", NAMESPACE, "killed-2")
    for name in ADAPTER_FILES:
        assert bucket.read(f"{adapter}/{name}") == bucket.read(f"adapters/undisturbed/{name}")
    metrics = json.loads(bucket.read(f"{adapter}/metrics.json"))
    assert metrics["adapter_loss"] < metrics["base_loss"]


def test_a_batch_with_the_adapter_answers_each_row_once_though_its_worker_was_killed(
    adapter: str, bucket: Bucket
) -> None:
    rows = [*tiny.mixed(16, max_tokens=200), tiny.request("refused", "/v1/completions", prompt="x", temperature=-1)]
    bucket.write("data/rows.jsonl", tiny.lines(rows))
    batch = {
        "model": bucket.place("models/llama"),
        "adapter": bucket.place(adapter),
        "input": bucket.place("data/rows.jsonl"),
        "output": bucket.place("results/answers.jsonl"),
        "errors": bucket.place("results/errors.jsonl"),
        "args": ["--max-num-seqs=2"],
    }
    apply(manifests.job("answering", NAMESPACE, {"batchInference": batch, "memory": "2560Mi"}))
    try:
        log = "results/answers.jsonl.parts"
        kept = wait_until(lambda: _kept(bucket, log, "results"), "rows are answered", JOB_SECONDS, 0.2) or b""
        delete("pod", _worker("answering")["metadata"]["name"], NAMESPACE, "--force", "--grace-period=0")
        assert not bucket.names("results/answers.jsonl"), "it was done before its pod was gone"
        _completed("answering")
        assert set(kept.splitlines()) < set(bucket.read("results/answers.jsonl").splitlines())
        answers, errors = (results(bucket.read(f"results/{name}.jsonl")) for name in ("answers", "errors"))
        assert set(answers) | set(errors) == {row["custom_id"] for row in rows}
        assert set(errors) == {"refused"}
        check_answers(answers)
    finally:
        delete("ojob", "answering", NAMESPACE)


def test_an_embedding_model_embeds_with_the_credentials_of_a_pod_template(service: str, bucket: Bucket) -> None:
    rows = [tiny.request(f"e-{number}", "/v1/embeddings", input="a kettle " * (number + 1)) for number in range(8)]
    bucket.write("data/texts.jsonl", tiny.lines(rows))
    batch = {
        "model": {"uri": bucket.uri("models/bert")},
        "input": {"uri": bucket.uri("data/texts.jsonl")},
        "output": {"uri": bucket.uri("results/embeddings.jsonl")},
    }
    container = {"name": "worker", "envFrom": [{"secretRef": {"name": SECRET}}]}
    template = {"metadata": {"labels": {"team": "search"}}, "spec": {"containers": [container]}}
    spec = {"batchInference": batch, "memory": "2560Mi", "podTemplate": template}
    apply(manifests.job("embedding", NAMESPACE, spec))
    try:
        _completed("embedding")
        assert items("pods", NAMESPACE, "rowen.dev/job=embedding,team=search")
        found = results(bucket.read("results/embeddings.jsonl"))
        assert set(found) == {row["custom_id"] for row in rows}
        for answer in found.values():
            assert len(answer["response"]["body"]["data"][0]["embedding"]) == tiny.EMBEDDING_SIZE
    finally:
        delete("ojob", "embedding", NAMESPACE)


@pytest.fixture(scope="module")
def gateway(bucket: Bucket, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The batch gateway, with a user who may edit the namespace, and the Secret of its jobs."""
    apply(bucket.secret(JOB_SECRET, NAMESPACE))
    kubectl("create", "serviceaccount", USER, "-n", NAMESPACE)
    account = f"--serviceaccount={NAMESPACE}:{USER}"
    kubectl("create", "rolebinding", USER, "-n", NAMESPACE, "--clusterrole=edit", account)
    with gateway_running(bucket, tmp_path_factory.mktemp("tls")) as found:
        yield found


@pytest.fixture
def client(gateway: Gateway) -> Iterator[openai.OpenAI]:
    """OpenAI's client with a token of the user's."""
    with gateway.client(_token(), NAMESPACE) as found:
        yield found


def _token() -> str:
    return kubectl("create", "token", USER, "-n", NAMESPACE).strip()


def _batch(client: openai.OpenAI, rows: list[dict[str, Any]]) -> tuple[str, str]:
    """Has a batch made. Its id, and the name of its job."""
    file = client.files.create(file=("rows.jsonl", tiny.lines(rows).encode()), purpose="batch")
    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="1h")
    return batch.id, batch.to_dict()["rowen"]["job"]


def test_openais_client_has_a_batch_answered_though_the_gateway_was_killed(
    service: str, gateway: Gateway, client: openai.OpenAI
) -> None:
    rows = [row for row in tiny.mixed(2, model=service, max_tokens=40) if row["url"] == "/v1/chat/completions"]
    rows.append(tiny.request("refused", "/v1/chat/completions", model=service, messages=[]))
    batch, job = _batch(client, rows)
    try:
        wait_until(lambda: "BatchInference" in kubectl("get", "ojob", job, "-n", NAMESPACE), "its kind is shown", 60)
        gateway.kill()
        # As a pod sees it: by the cluster's DNS, with the certificate of its own choice.
        assert gateway.ask_in_toolbox(NAMESPACE, _token(), f"client.batches.retrieve({batch!r}).id") == batch
        ended = wait_until(lambda: _ended(client, batch), f"batch {batch} ends", JOB_SECONDS)
        assert ended.status == "completed", ended
        assert condition(get("ojob", job, NAMESPACE), "Finished")["reason"] == "Completed"
        counts = ended.request_counts
        assert counts is not None
        assert (counts.total, counts.completed, counts.failed) == (len(rows), len(rows) - 1, 1)
        answers, errors = (
            results(client.files.content(file or "").read()) for file in (ended.output_file_id, ended.error_file_id)
        )
        assert set(answers) == {row["custom_id"] for row in rows} - {"refused"}
        check_answers(answers)
        assert {custom_id: entry["response"]["status_code"] for custom_id, entry in errors.items()} == {"refused": 400}
    finally:
        delete("ojob", job, NAMESPACE)


def test_a_batch_is_cancelled_and_a_wrong_token_is_refused(
    service: str, gateway: Gateway, client: openai.OpenAI
) -> None:
    batch, job = _batch(client, tiny.mixed(1, model=service)[:1])
    try:
        client.batches.cancel(batch)
        ended = wait_until(lambda: _ended(client, batch), f"batch {batch} is cancelled", 60)
        assert ended.status == "cancelled"
    finally:
        delete("ojob", job, NAMESPACE)
    with gateway.client(_token()[:-8] + "AAAAAAAA", NAMESPACE) as stranger, pytest.raises(openai.AuthenticationError):
        stranger.batches.list()


def _ended(client: openai.OpenAI, batch: str) -> openai.types.Batch | None:
    found = client.batches.retrieve(batch)
    return found if found.status in ("completed", "failed", "expired", "cancelled") else None


def test_the_engine_was_probed_and_never_restarted(service: str) -> None:
    (pod,) = items("pods", NAMESPACE, f"rowen.dev/service={service}")
    (container,) = pod["spec"]["containers"]
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(container)
    for kind in ("Startup", "Readiness", "Liveness"):
        wait_until(lambda kind=kind: probed(pod).get((kind, "successful")), f"the {kind} probe succeeds", 60)
    assert probed(pod).get(("Liveness", "failed"), 0) == 0
    (status,) = pod["status"]["containerStatuses"]
    assert (status["started"], status["ready"], status["restartCount"]) == (True, True, 0)

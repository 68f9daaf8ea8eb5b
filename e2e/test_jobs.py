"""Jobs as their users have them: models, data and results in S3, chats, OpenAI's client, and workers killed."""

import json
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import openai
import pytest
from kit import containers, manifests, tiny
from kit.bucket import SECRET, Bucket
from kit.gateway import JOB_SECRET, Gateway
from kit.gateway import running as gateway_running
from kit.kubectl import apply, condition, delete, get, items, kubectl, wait_condition, wait_until
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
    _check_answers(answers)


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


def _is_kept(bucket: Bucket, log: str, kind: str) -> bool:
    """Whether a log of an output in the bucket has an entry of a kind."""
    # An entry may be gone since it was listed.
    with suppress(FileNotFoundError):
        heads = [bucket.read(f"{log}/{name}").splitlines()[0] for name in bucket.names(log)]
        return any(json.loads(head)["kind"] == kind for head in heads)
    return False


@pytest.fixture(scope="module")
def adapter(service: str, bucket: Bucket) -> Iterator[str]:
    """A tuned adapter, whose worker was killed; its path."""
    jobs = {"killed": "adapters/killed", "undisturbed": "adapters/undisturbed"}
    try:
        apply(*(_tuning(name, bucket, output) for name, output in jobs.items()))
        log = "adapters/killed/checkpoints"
        wait_until(lambda: _is_kept(bucket, log, "checkpoint"), "a checkpoint is there", JOB_SECONDS, 0.1)
        containers.kill(_worker("killed"))
        assert not bucket.names("adapters/killed/metrics.json"), "it was done before it was killed"
        for name in jobs:
            _completed(name)
        yield jobs["killed"]
    finally:
        for name in jobs:
            delete("ojob", name, NAMESPACE)


def test_a_tuning_job_that_was_killed_ends_with_the_same_bytes(adapter: str, bucket: Bucket) -> None:
    for name in ADAPTER_FILES:
        assert bucket.read(f"{adapter}/{name}") == bucket.read(f"adapters/undisturbed/{name}")
    metrics = json.loads(bucket.read(f"{adapter}/metrics.json"))
    assert metrics["adapter_loss"] < metrics["base_loss"]


def _results(bucket: Bucket, *paths: str) -> dict[str, dict[str, Any]]:
    """By custom id; each is there once."""
    found = [json.loads(line) for path in paths for line in bucket.read(path).splitlines()]
    by_id = {entry["custom_id"]: entry for entry in found}
    assert len(by_id) == len(found)
    return by_id


def _check_answers(answers: dict[str, dict[str, Any]]) -> None:
    """Each kind of row got what it asked for."""
    for custom_id, answer in answers.items():
        assert answer["response"]["status_code"] == 200, answer
        choice = answer["response"]["body"]["choices"][0]
        match custom_id.partition("-")[0]:
            case "formed":
                assert json.loads(choice["message"]["content"])["a"] in (1, 2)
            case "logged":
                assert len(choice["logprobs"]["content"][0]["top_logprobs"]) == 2
            case "completed":
                assert choice["text"]
            case "plain":
                assert choice["message"]["content"]


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
        wait_until(lambda: _is_kept(bucket, log, "results"), "rows are answered", JOB_SECONDS, 0.2)
        delete("pod", _worker("answering")["metadata"]["name"], NAMESPACE, "--force", "--grace-period=0")
        assert not bucket.names("results/answers.jsonl"), "it was done before its pod was gone"
        _completed("answering")
        answers = _results(bucket, "results/answers.jsonl")
        errors = _results(bucket, "results/errors.jsonl")
        assert set(answers) | set(errors) == {row["custom_id"] for row in rows}
        assert set(errors) == {"refused"}
        _check_answers(answers)
    finally:
        delete("ojob", "answering", NAMESPACE)


def test_an_embedding_model_out_of_s3_embeds(service: str, bucket: Bucket) -> None:
    rows = [tiny.request(f"e-{number}", "/v1/embeddings", input="a kettle " * (number + 1)) for number in range(8)]
    bucket.write("data/texts.jsonl", tiny.lines(rows))
    batch = {
        "model": bucket.place("models/bert"),
        "input": bucket.place("data/texts.jsonl"),
        "output": bucket.place("results/embeddings.jsonl"),
    }
    apply(manifests.job("embedding", NAMESPACE, {"batchInference": batch, "memory": "2560Mi"}))
    try:
        _completed("embedding")
        found = _results(bucket, "results/embeddings.jsonl")
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


def test_openais_client_has_a_batch_answered(service: str, gateway: Gateway) -> None:
    rows = [
        *tiny.mixed(2, model=service, max_tokens=40),
        tiny.request("refused", "/v1/chat/completions", model=service, messages=[], max_tokens=4),
    ]
    rows = [row for row in rows if row["url"] == "/v1/chat/completions"]
    token = kubectl("create", "token", USER, "-n", NAMESPACE).strip()
    with pytest.raises(openai.AuthenticationError):
        gateway.client(token[:-8] + "AAAAAAAA", NAMESPACE).batches.list()
    client = gateway.client(token, NAMESPACE)
    file = client.files.create(file=("rows.jsonl", tiny.lines(rows).encode()), purpose="batch")
    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="1h")
    job = batch.to_dict()["rowen"]["job"]
    try:
        assert "BatchInference" in kubectl("get", "ojob", job, "-n", NAMESPACE)
        ended = wait_until(lambda: _ended(client, batch.id), f"batch {batch.id} ends", JOB_SECONDS)
        assert ended.status == "completed", ended
        assert condition(get("ojob", job, NAMESPACE), "Finished")["reason"] == "Completed"
        counts = ended.request_counts
        assert counts is not None
        assert (counts.total, counts.completed, counts.failed) == (len(rows), len(rows) - 1, 1)
        answers, errors = (_content(client, each) for each in (ended.output_file_id, ended.error_file_id))
        assert set(answers) == {row["custom_id"] for row in rows} - {"refused"}
        _check_answers(answers)
        assert {custom_id: entry["response"]["status_code"] for custom_id, entry in errors.items()} == {"refused": 400}
    finally:
        delete("ojob", job, NAMESPACE)


def _ended(client: openai.OpenAI, batch: str) -> openai.types.Batch | None:
    found = client.batches.retrieve(batch)
    return found if found.status in ("completed", "failed", "expired", "cancelled") else None


def _content(client: openai.OpenAI, file: str | None) -> dict[str, dict[str, Any]]:
    assert file is not None
    found = [json.loads(line) for line in client.files.content(file).read().splitlines()]
    assert len({entry["custom_id"] for entry in found}) == len(found)
    return {entry["custom_id"]: entry for entry in found}


def _engine() -> dict[str, Any]:
    (pod,) = items("pods", NAMESPACE, f"rowen.dev/service={SERVICE}")
    return pod


def _probed(pod: dict[str, Any]) -> dict[tuple[str, str], float]:
    """How often the kubelet has probed it, by kind and result."""
    text = kubectl("get", "--raw", f"/api/v1/nodes/{pod['spec']['nodeName']}/proxy/metrics/probes")
    found = {}
    for line in text.splitlines():
        if line.startswith("prober_probe_total{") and f'pod_uid="{pod["metadata"]["uid"]}"' in line:
            labels = dict(part.split("=") for part in line.partition("{")[2].partition("}")[0].split(","))
            key = (labels["probe_type"].strip('"'), labels["result"].strip('"'))
            found[key] = float(line.rpartition(" ")[2])
    return found


def test_the_engine_was_probed_and_never_restarted(service: str) -> None:
    pod = _engine()
    (container,) = pod["spec"]["containers"]
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(container)
    for kind in ("Startup", "Readiness", "Liveness"):
        wait_until(lambda kind=kind: _probed(pod).get((kind, "successful")), f"the {kind} probe succeeds", 60)
    assert _probed(pod).get(("Liveness", "failed"), 0) == 0
    (status,) = pod["status"]["containerStatuses"]
    assert (status["started"], status["ready"], status["restartCount"]) == (True, True, 0)

"""A job of any model goes on beside requests, on a share of the device."""

import json
import threading
from collections.abc import Iterator

import pytest
from kit import manifests, pool, riding, volumes
from kit.kubectl import apply, delete, get, wait_condition, wait_until
from kit.traffic import Answer, burst
from kit.world import World

from rowen.crds.harvest.device_detail import DeviceDetail

SERVICE, JOB = "shared", "beside"
LONG_EPOCHS = 1000
ROWS = [{"prompt": f"question {number % 4}", "completion": "the answer is blue"} for number in range(32)]
PROMPT, TOKENS, AT_ONCE = list(range(10, 30)), 400, 4


@pytest.fixture(scope="module")
def service(workspace: object) -> Iterator[str]:
    """Its address."""
    namespace = "rowen-e2e"
    riding.make_model(namespace)
    volumes.write(namespace, "data/beside.jsonl", "\n".join(map(json.dumps, ROWS)) + "\n")
    made = manifests.online_service(SERVICE, namespace, riding.MODEL)
    made["spec"]["harvest"]["mode"] = "Spatial"
    apply(made)
    wait_condition("osvc", SERVICE, namespace, "Ready", timeout_seconds=400)
    yield f"http://{(get('service', SERVICE, namespace) or {})['spec']['clusterIP']}:8000"
    delete("osvc", SERVICE, namespace)


class Busy:
    """Requests in flight all the time: the next ones come while the last ones are being answered."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(2)]
        self.answers: list[Answer] = []

    def _run(self) -> None:
        while not self._stop.is_set():
            self.answers += burst(self._url, SERVICE, [PROMPT] * AT_ONCE, TOKENS)

    def __enter__(self) -> "Busy":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=120)


def _device() -> DeviceDetail:
    _, device = pool.find(SERVICE) or (None, None)
    if device is None:
        raise LookupError("no agent tells of the service's device")
    return device


def _progress(world: World) -> int:
    status = (get("ojob", JOB, world.namespace) or {}).get("status", {})
    return int((status.get("progress") or {}).get("completed", 0))


def _open_beside_requests() -> bool:
    device = _device()
    return device.gate_open and device.in_flight > 0


def test_a_job_goes_on_beside_requests(service: str, world: World) -> None:
    (engine,) = riding.engine_pods(SERVICE, world.namespace)
    job = manifests.fine_tune(JOB, world.namespace, "llama-demo", "beside.jsonl", f"out/{JOB}", epochs=LONG_EPOCHS)
    job["spec"]["podTemplate"] = {"spec": {"nodeSelector": {"kubernetes.io/hostname": engine["spec"]["nodeName"]}}}
    try:
        apply(job)
        wait_until(lambda: _progress(world) > 0, "the job has begun", 420)
        assert riding.assignment(JOB, world.namespace)["mode"] == "Spatial"
        with Busy(service) as traffic:
            wait_until(_open_beside_requests, "the gate is open beside requests", 60)
            spatial = wait_until(lambda: _device().spatial, "the agent tells of the share", 60)
            before = _progress(world)
            wait_until(lambda: _progress(world) > before, "the job goes on beside requests", 120)
            assert _device().in_flight > 0
        assert spatial is not None
        assert 0 < spatial.share < 1
        assert traffic.answers
        assert [answer.error for answer in traffic.answers if answer.error] == []
    finally:
        delete("ojob", JOB, world.namespace)

"""A vLLM of somebody else's: a plain Deployment in an image without Rowen joins, and serves on whatever Rowen does."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from kit import manifests, plain_image
from kit.kubectl import apply, condition, delete, get, items, kubectl, wait_condition, wait_until
from kit.traffic import Background
from rich.console import Console

from rowen.demo.cluster.install import Images, install
from rowen.demo.cluster.kubectl import Cluster, binary

ROOT = Path(__file__).parent.parent
NAMESPACE, NAME = "rowen-e2e", "llm"
START_SECONDS = 400.0
RELEASE, RELEASE_NAMESPACE, AGENT_NAMESPACE = "rowen", "rowen-system", "rowen-agent"


def deployment(image: str, **environment: str) -> list[dict[str, Any]]:
    """The example's Deployment and Service, in this namespace and image."""
    found = list(yaml.safe_load_all((ROOT / "examples/adopted/deployment.yaml").read_text()))
    (container,) = found[0]["spec"]["template"]["spec"]["containers"]
    container["image"] = image
    container["env"] += [{"name": name, "value": value} for name, value in environment.items()]
    return _here(found)


def service() -> list[dict[str, Any]]:
    """The example's OnlineService."""
    return _here(list(yaml.safe_load_all((ROOT / "examples/adopted/online-service.yaml").read_text())))


def _here(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for manifest in found:
        manifest["metadata"]["namespace"] = NAMESPACE
    return found


def rolled_out() -> None:
    """Every pod is of the newest template and Ready."""
    limit = f"--timeout={START_SECONDS:.0f}s"
    kubectl("rollout", "status", f"deployment/{NAME}", "-n", NAMESPACE, limit, timeout=START_SECONDS + 30)


def url() -> str:
    """Of the Deployment's own Service."""
    found = get("service", NAME, NAMESPACE)
    assert found is not None
    return f"http://{found['spec']['clusterIP']}:8000"


def answers() -> None:
    """A request is answered."""
    body = {"model": NAME, "prompt": "how do I return an order", "max_tokens": 4}
    response = httpx.post(f"{url()}/v1/completions", json=body, timeout=60, trust_env=False)
    assert response.status_code == 200, response.text
    assert response.json()["usage"]["completion_tokens"] > 0


def status() -> dict[str, Any]:
    return dict((get("osvc", NAME, NAMESPACE) or {}).get("status", {}))


def harvest() -> dict[str, Any]:
    return condition(get("osvc", NAME, NAMESPACE), "HarvestEnabled")


def engine_log() -> str:
    (pod,) = [pod for pod in items("pods", NAMESPACE, f"app={NAME}") if "deletionTimestamp" not in pod["metadata"]]
    return kubectl("logs", "-n", NAMESPACE, str(pod["metadata"]["name"]))


def restarts() -> int:
    (pod,) = items("pods", NAMESPACE, f"app={NAME}")
    return int(pod["status"]["containerStatuses"][0]["restartCount"])


def installed(images: Images) -> None:
    async def run() -> None:
        async with Cluster.connect(NAMESPACE) as cluster:
            await install(cluster, images, ROOT, None, Console())

    asyncio.run(run())


@pytest.fixture(scope="module")
def image(workspace: Images) -> str:
    """With vLLM and nothing of Rowen's."""
    if "rowen-node-1" not in kubectl("get", "nodes", "-o", "name"):
        pytest.skip("the image is built for the local cluster")
    return plain_image.ensure(workspace.runtime)


@pytest.fixture(scope="module")
def adopted(image: str) -> Iterator[str]:
    """The Deployment, serving, and its OnlineService. Its image."""
    apply(*deployment(image))
    rolled_out()
    apply(*service())
    yield image
    delete("osvc", NAME, NAMESPACE)
    delete("deployment", NAME, NAMESPACE)
    delete("service", NAME, NAMESPACE)


def test_the_image_knows_nothing_of_rowen(adopted: str) -> None:
    program = "import importlib.util as u, os; os.environ.pop('PYTHONPATH'); import sys; "
    program += "sys.path = [p for p in sys.path if '/run/rowen' not in p]; "
    program += "print([u.find_spec(name) is None for name in ('rowen', 'structlog')])"
    found = kubectl("exec", "-n", NAMESPACE, f"deployment/{NAME}", "--", "python", "-c", program)
    assert found.strip() == "[True, True]"


def test_its_idle_time_is_harvested_and_its_latency_told(adopted: str, workspace: Images) -> None:
    wait_condition("osvc", NAME, NAMESPACE, "HarvestEnabled", timeout_seconds=120)
    apply(manifests.spinning("guest", NAMESPACE, workspace.runtime))
    try:
        wait_condition("ojob", "guest", NAMESPACE, "Running", timeout_seconds=180)
        with Background(url(), NAME) as traffic:
            wait_until(lambda: status().get("ttft"), "the service's latency is told", 120)
            wait_until(lambda: status().get("harvestedFraction"), "something was harvested", 120)
            wait_until(_preempted, "a request has stopped the guest", 60)
        assert traffic.errors == []
        assert harvest()["reason"] == "Harvesting"
    finally:
        delete("ojob", "guest", NAMESPACE)


def _devices() -> list[dict[str, Any]]:
    reports = [get("nodeharvest", node, "") or {} for node in ("rowen-node-1", "rowen-node-2")]
    devices = [device for report in reports for device in report.get("status", {}).get("devices", ())]
    return [device for device in devices if device.get("online", {}).get("service") == NAME]


def _preempted() -> bool:
    return any(device["preemptions"] > 0 for device in _devices())


def test_it_serves_while_the_agents_are_away(adopted: str) -> None:
    before = restarts()
    with Background(url(), NAME) as traffic:
        kubectl("delete", "pods", "-n", AGENT_NAMESPACE, "--all", "--force", "--grace-period=0", timeout=120)
        wait_until(lambda: len(traffic.answers) > 10, "requests were answered meanwhile", 120)
        wait_condition("osvc", NAME, NAMESPACE, "HarvestEnabled", timeout_seconds=180)
    assert traffic.errors == []
    assert restarts() == before


def test_with_a_plugin_that_fails_it_serves_and_says_so(adopted: str) -> None:
    # The environment that a container names itself is stronger than the device plugin's.
    apply(*deployment(adopted, ROWEN_LIBRARY="/nonexistent/librowen.so"))
    rolled_out()
    try:
        wait_until(lambda: harvest().get("reason") == "NotAttached", "the service says that nothing is harvested", 120)
        assert "`rowen:` in the engine's log" in harvest()["message"]
        assert condition(get("osvc", NAME, NAMESPACE), "Degraded")["reason"] == "NotAttached"
        answers()
        said = [line for line in engine_log().splitlines() if "rowen:" in line]
        assert any("library cannot be used" in line for line in said), said
    finally:
        apply(*deployment(adopted))
        rolled_out()
    wait_condition("osvc", NAME, NAMESPACE, "HarvestEnabled", timeout_seconds=120)


def test_it_serves_when_rowen_is_gone_and_starts_without_it(adopted: str, workspace: Images) -> None:
    before = restarts()
    try:
        with Background(url(), NAME) as traffic:
            helm = [binary("helm"), "uninstall", RELEASE, "--namespace", RELEASE_NAMESPACE, "--wait"]
            subprocess.run(helm, check=True, timeout=180, stdout=sys.stderr)
            wait_until(lambda: not items("pods", AGENT_NAMESPACE), "the agents are gone", 120)
            count = len(traffic.answers)
            wait_until(lambda: len(traffic.answers) > count + 10, "requests are answered", 120)
        assert traffic.errors == []
        assert restarts() == before
        # Ended by the kernel, say: the same pod starts its container again.
        kubectl(
            "exec", "-n", NAMESPACE, f"deployment/{NAME}", "--", "sh", "-c", "kill -9 $(cat /proc/1/task/1/children)"
        )
        wait_until(lambda: restarts() > before, "the engine is started again", 120)
        rolled_out()
        answers()
        # The same command without the line of the device's: a new pod.
        found = deployment(adopted)
        (container,) = found[0]["spec"]["template"]["spec"]["containers"]
        del container["resources"]["limits"]["rowen.dev/online"]
        apply(*found)
        rolled_out()
        answers()
        assert "rowen:" not in engine_log()
    finally:
        installed(workspace)
        apply(*deployment(adopted))
        rolled_out()
    wait_condition("osvc", NAME, NAMESPACE, "HarvestEnabled", timeout_seconds=180)

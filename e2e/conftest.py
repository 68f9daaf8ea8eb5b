"""Rowen installed on a real cluster, with a namespace, volumes and a service for the tests."""

import asyncio
import contextlib
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit import manifests, volumes
from kit.kubectl import KubectlError, apply, condition, delete, get, kubectl, wait_condition, wait_until
from kit.world import World
from rich.console import Console

from rowen.demo.cluster.endpoint import service_endpoint
from rowen.demo.cluster.install import Images, install
from rowen.demo.cluster.kubectl import Cluster

ROOT = Path(__file__).parent.parent
NAMESPACE = "rowen-e2e"
DEMO_NAMESPACE = "default"
SERVICE = "chat"
MODEL = "llama-demo"
SMALL_CLAIM = "small"
VOLUMES = ("models", "data", SMALL_CLAIM)
NODES = ("rowen-node-1", "rowen-node-2")


def _local() -> bool:
    return "rowen-node-1" in kubectl("get", "nodes", "-o", "name")


def _host_path(name: str) -> Path | None:
    return volumes.host_folder(NAMESPACE, name) if _local() else None


@pytest.fixture(scope="session")
def images() -> Images:
    """The images that `make images` built."""
    return Images.load()


@pytest.fixture(scope="session")
def rowen(images: Images) -> None:
    """Rowen, installed by its chart and Ready, on devices that no service of the demo holds."""

    async def run() -> None:
        async with Cluster.connect(NAMESPACE) as cluster:
            await install(cluster, images, ROOT, None, Console())

    asyncio.run(run())
    if _local():
        kubectl("delete", "osvc,ojob", "-n", DEMO_NAMESPACE, "--all", timeout=180)


@pytest.fixture(scope="session")
def workspace(rowen: None, images: Images) -> Iterator[Images]:
    """The namespace with its claims, the model on one of them, and the toolbox pod."""
    _remove_workspace()
    kubectl("create", "namespace", NAMESPACE)
    for name in VOLUMES[:2]:
        apply(*volumes.claim(name, NAMESPACE, host_path=_host_path(name)))
    volumes.start_toolbox(NAMESPACE, images.runtime, list(VOLUMES[:2]), NODES[0] if _local() else None)
    volumes.run(
        NAMESPACE, "python", "-m", "rowen.demo.samples", "--models", "/volumes/models", "--data", "/volumes/data"
    )
    yield images
    _remove_workspace()


def _remove_workspace() -> None:
    with contextlib.suppress(KubectlError):
        kubectl("delete", "osvc,ojob", "-n", NAMESPACE, "--all", timeout=180)
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", timeout=240)
    kubectl("delete", "pv", "-l", f"rowen-e2e={NAMESPACE}", "--ignore-not-found")
    shutil.rmtree(volumes.HOST_ROOT / NAMESPACE, ignore_errors=True)


def _start_service(replicas: int = 1) -> None:
    apply(manifests.online_service(SERVICE, NAMESPACE, MODEL, replicas=replicas))
    wait_condition("osvc", SERVICE, NAMESPACE, "Ready", timeout_seconds=300)
    wait_condition("osvc", SERVICE, NAMESPACE, "HarvestEnabled", timeout_seconds=60)


@pytest.fixture
def _endpoint(workspace: Images) -> Iterator[str]:
    """The service's URL as seen from here, found anew for each test, since a service made again has a new address."""
    if condition(get("osvc", SERVICE, NAMESPACE), "HarvestEnabled").get("status") != "True":
        _start_service()
    opened, done = threading.Event(), asyncio.Event()
    found: list[str] = []
    loop = asyncio.new_event_loop()

    async def hold() -> None:
        async with Cluster.connect(NAMESPACE) as cluster, service_endpoint(cluster, SERVICE, Console()) as url:
            found.append(url())
            opened.set()
            await done.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(hold(),), daemon=True)
    thread.start()
    assert opened.wait(60), "no way to the service"
    yield found[0]
    loop.call_soon_threadsafe(done.set)
    thread.join(timeout=30)
    loop.close()


@pytest.fixture
def world(workspace: Images, _endpoint: str) -> World:
    """The namespace with the service Ready and its idle time on offer."""
    return World(NAMESPACE, workspace.runtime, MODEL, _endpoint, SERVICE, _local())


@pytest.fixture
def own_service(world: World) -> Iterator[World]:
    """The same, for a test that deletes the service; it is there again afterwards."""
    yield world
    _start_service()


def _offers(node: str) -> bool:
    report = get("nodeharvest", node, NAMESPACE) or {}
    return bool(report.get("status", {}).get("summary", {}).get("harvestable") == 1)


@pytest.fixture
def two_replicas(world: World) -> Iterator[World]:
    """The same with a replica on each of two nodes."""
    _start_service(replicas=2)
    wait_until(
        lambda: (get("osvc", SERVICE, NAMESPACE) or {}).get("status", {}).get("readyReplicas") == 2,
        "two replicas are Ready",
        300,
    )
    if world.local:
        wait_until(lambda: all(_offers(node) for node in NODES), "both nodes offer their device", 90)
    yield world
    _start_service()


@pytest.fixture
def small_claim(world: World) -> Iterator[str]:
    """A claim on a file system that is full."""
    if not world.local:
        pytest.skip("a full file system can only be made on the local cluster")
    folder = volumes.host_folder(NAMESPACE, SMALL_CLAIM)
    try:
        # A node has a mount namespace of its own, so the file system is mounted there.
        for node in NODES:
            _on_node(node, "mount", "-t", "tmpfs", "-o", "size=64k,mode=0777", "rowen-e2e", str(folder))
            _on_node(node, "dd", "if=/dev/zero", f"of={folder}/ballast", "bs=4k", "count=15")
        apply(*volumes.claim(SMALL_CLAIM, NAMESPACE, host_path=folder))
        yield SMALL_CLAIM
    finally:
        delete("pvc", SMALL_CLAIM, NAMESPACE)
        kubectl("delete", "pv", f"{NAMESPACE}-{SMALL_CLAIM}", "--ignore-not-found")
        for node in NODES:
            _on_node(node, "umount", "--lazy", str(folder))


def _on_node(node: str, *command: str) -> None:
    subprocess.run([sys.executable, "-m", "rowen.cluster", "node", "run", node, "--", *command], check=True, timeout=60)

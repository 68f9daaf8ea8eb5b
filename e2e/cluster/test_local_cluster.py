"""The local cluster is a real one: services, names, logs, exec, per-node paths, cores, and a clean end.

`down` would take the cluster away from everybody else on the machine, so that test
runs only with ROWEN_E2E_DOWN=1.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from rowen.cluster.images import buildah, debootstrap
from rowen.cluster.layout import HOST_ADDRESS, REGISTRY, SERVICE_IP, Layout
from rowen.cluster.modes import local
from rowen.cluster.node.node import NODES

LAYOUT = Layout()
NAMESPACE = "rowen-cluster-test"
IMAGE = f"{REGISTRY}/rowen/probe:1"
SERVE = "cd /srv; echo $NODE > node; echo serving on $NODE; exec python3 -m http.server 8080"
FETCH = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=5).read().decode().strip())"
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)"


class KubectlError(RuntimeError):
    """A kubectl command failed: what it was, and what it said."""


def kubectl(*words: str, stdin: str | None = None) -> str:
    command = ["kubectl", f"--kubeconfig={LAYOUT.kubeconfig}", "--namespace", NAMESPACE, *words]
    done = subprocess.run(command, input=stdin, check=False, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise KubectlError(f"kubectl {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def cluster(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "rowen.cluster", *words], check=True, timeout=600)


def eventually(check: Callable[[], bool], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.5)


def manifest() -> str:
    mounts = {"kubelet": "/var/lib/kubelet", "run": "/run/rowen"}
    container = {
        "name": "web",
        "image": IMAGE,
        "command": ["sh", "-c", SERVE],
        "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "readinessProbe": {"httpGet": {"path": "/node", "port": 8080}, "periodSeconds": 1},
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in mounts.items()],
    }
    spec = {
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [{"name": name, "hostPath": {"path": path}} for name, path in mounts.items()],
    }
    labels = {"app": "web"}
    items = [
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "web"},
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": 8080}]},
        },
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


@pytest.fixture(scope="module")
def pods() -> Iterator[dict[str, tuple[str, str]]]:
    """A web server on each node: node -> pod name and address."""
    if not LAYOUT.kubeconfig.exists():
        pytest.skip("the local cluster is not up")
    debootstrap.ensure(LAYOUT)
    buildah.push_uncompressed(LAYOUT, debootstrap.BASE, IMAGE)
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")
    kubectl("create", "namespace", NAMESPACE)
    kubectl("apply", "-f", "-", stdin=manifest())
    kubectl("rollout", "status", "daemonset/web", "--timeout=110s")
    listing = json.loads(kubectl("get", "pods", "-o", "json"))["items"]
    # A node's kube-proxy writes its rules a moment after the endpoints are ready.
    for pod in listing:
        eventually(partial(answers, pod["metadata"]["name"], f"http://{service_ip()}/node"), seconds=30)
    yield {pod["spec"]["nodeName"]: (pod["metadata"]["name"], pod["status"]["podIP"]) for pod in listing}
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")


Pods = dict[str, tuple[str, str]]


def service_ip() -> str:
    return kubectl("get", "service", "web", "-o=jsonpath={.spec.clusterIP}")


def ask(pod: str, url: str) -> str:
    return kubectl("exec", pod, "--", "python3", "-c", FETCH, url).strip()


def answers(pod: str, url: str) -> bool:
    try:
        return bool(ask(pod, url))
    except KubectlError as error:
        print(error)
        return False


def ask_until_all(pod: str, url: str, nodes: set[str]) -> set[str]:
    """Who answers: the service chooses one of its pods at random each time."""
    seen: set[str] = set()
    for _ in range(40):
        seen.add(ask(pod, url))
        if seen == nodes:
            break
    return seen


def test_each_node_runs_a_pod_and_serves_its_logs(pods: Pods) -> None:
    assert set(pods) == {node.name for node in NODES}
    for node, (pod, _) in pods.items():
        assert f"serving on {node}" in kubectl("logs", pod)


def test_pods_reach_pods_services_and_the_api_server(pods: Pods) -> None:
    for pod, _ in pods.values():
        for node, (_, address) in pods.items():
            assert ask(pod, f"http://{address}:8080/node") == node
        assert ask_until_all(pod, f"http://{service_ip()}/node", set(pods)) == set(pods)
        for address, port in ((SERVICE_IP, "443"), (HOST_ADDRESS, "6443")):
            kubectl("exec", pod, "--", "python3", "-c", CONNECT, address, port)


def test_pods_find_services_by_name(pods: Pods) -> None:
    for pod, _ in pods.values():
        for name in ("web", f"web.{NAMESPACE}.svc", f"web.{NAMESPACE}.svc.cluster.local"):
            assert ask(pod, f"http://{name}/node") in pods


def test_the_machine_reaches_pods_and_services(pods: Pods) -> None:
    for address in (f"{service_ip()}:80", *(f"{address}:8080" for _, address in pods.values())):
        answer = subprocess.run(
            ["curl", "-sf", "--noproxy", "*", "--max-time", "5", f"http://{address}/node"],
            check=True,
            capture_output=True,
            text=True,
        )
        assert answer.stdout.strip() in pods


def test_each_node_has_its_own_kubelet_folder_and_run_directory(pods: Pods) -> None:
    for node, (pod, _) in pods.items():
        kubectl("exec", pod, "--", "test", "-S", "/var/lib/kubelet/device-plugins/kubelet.sock")
        kubectl("exec", pod, "--", "test", "-S", "/var/lib/kubelet/pod-resources/kubelet.sock")
        kubectl("exec", pod, "--", "sh", "-c", f"echo {node} > /run/rowen/who")
    for node, (pod, _) in pods.items():
        assert kubectl("exec", pod, "--", "cat", "/run/rowen/who").strip() == node
        kubectl("exec", pod, "--", "rm", "/run/rowen/who")


def test_containers_may_use_every_core(pods: Pods) -> None:
    online = Path("/sys/devices/system/cpu/online").read_text().strip()
    for pod, _ in pods.values():
        status = kubectl("exec", pod, "--", "cat", "/proc/1/status")
        assert status.partition("Cpus_allowed_list:")[2].split()[0] == online


def test_a_lost_node_is_noticed_and_comes_back(pods: Pods) -> None:
    name = "rowen-node-2"
    pod, _ = pods[name]
    ready = '-o=jsonpath={.status.conditions[?(@.type=="Ready")].status}'
    cluster("node", "stop", name)
    try:
        eventually(lambda: kubectl("get", "node", name, ready) == "Unknown")
    finally:
        cluster("node", "start", name)
    eventually(lambda: kubectl("get", "node", name, ready) == "True")
    kubectl("wait", f"pod/{pod}", "--for=condition=Ready", "--timeout=60s")


@pytest.mark.skipif(os.environ.get("ROWEN_E2E_DOWN") != "1", reason="takes the cluster away; ROWEN_E2E_DOWN=1")
def test_down_leaves_nothing_and_up_brings_it_back() -> None:
    forwarding = (LAYOUT.root / "ip_forward").read_text().strip()
    cluster("down")
    assert local.leftovers(LAYOUT) == []
    assert Path("/proc/sys/net/ipv4/ip_forward").read_text().strip() == forwarding
    assert not Path("/var/lib/kubelet").exists()
    assert str(LAYOUT.root) not in Path("/proc/mounts").read_text()
    cluster("up")
    cluster("status")

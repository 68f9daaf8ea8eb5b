"""Installs Rowen and prepares volumes, models and data."""

import json
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from rowen.cluster.layout import Layout
from rowen.crds.names import JOB_LABEL
from rowen.demo.cluster.kubectl import Cluster, Object, binary, command, kubectl
from rowen.demo.cluster.pods import OneOff, run_pod
from rowen.demo.cluster.readiness import diagnosis, wait_for, workloads_state
from rowen.demo.errors import DemoError

RELEASE = "rowen"
RELEASE_NAMESPACE = "rowen-system"
AGENT_NAMESPACE = "rowen-agent"
NAMESPACES = (RELEASE_NAMESPACE, AGENT_NAMESPACE)
CLAIMS = ("models", "data")

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_LOCAL_NODE = "rowen-node-1"
_IMAGES = Layout().images


@dataclass(frozen=True)
class Images:
    """Full references of Rowen's images, as the nodes know them."""

    controlplane: str
    agent: str
    runtime: str

    @classmethod
    def load(cls, path: Path = _IMAGES) -> "Images":
        """Reads what the image build left. Raises `DemoError` where it is missing or malformed."""
        try:
            return cls(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError) as error:
            raise DemoError(f"the images' references are not in {path}: {error}", "Run `make images` first.") from error


async def install(cluster: Cluster, images: Images, root: Path, values: Path | None, console: Console) -> None:
    """Installs the chart, or upgrades it, and waits until every workload is Ready. Raises `DemoError`."""
    chart = root / "charts" / "rowen"
    # Helm installs CRDs but never upgrades them, and a run after a pull may bring newer ones.
    await kubectl("apply", "--server-side", "--force-conflicts", "-f", str(chart / "crds"))
    values = values or await _default_values(cluster, root / "examples" / "helm")
    console.print(f"  helm upgrade --install {RELEASE} charts/rowen --values {values.name}")
    await command(
        binary("helm"), "upgrade", "--install", RELEASE, str(chart),
        "--namespace", RELEASE_NAMESPACE, "--create-namespace", "--values", str(values),
        "--set", f"image.controlplane={images.controlplane}",
        "--set", f"image.agent={images.agent}",
        "--set", f"image.runtime={images.runtime}",
        limit=180,
    )  # fmt: skip

    async def state() -> str:
        return await workloads_state(cluster, {RELEASE_NAMESPACE: "deployments", AGENT_NAMESPACE: "daemonsets"})

    await wait_for("operator, scheduler, agents", state, lambda: diagnosis(cluster, NAMESPACES), console, 180)


async def _default_values(cluster: Cluster, folder: Path) -> Path:
    local = await cluster.find(f"/api/v1/nodes/{_LOCAL_NODE}") is not None
    return folder / ("local.yaml" if local else "one-core.yaml")


async def clear_jobs(cluster: Cluster, jobs: tuple[str, ...], console: Console) -> None:
    """Deletes an earlier run's jobs and waits until they and their pods are gone. Raises `DemoError`."""
    for name in jobs:
        await kubectl(
            "delete", "offlinejobs.rowen.dev", "-n", cluster.namespace, name, "--ignore-not-found", "--wait",
            "--timeout=90s",
        )  # fmt: skip

    async def state() -> str:
        left = await job_pods(cluster, jobs)
        return f"{', '.join(left)} still there" if left else ""

    await wait_for("earlier jobs are gone", state, lambda: diagnosis(cluster, (cluster.namespace,)), console, 90)


async def job_pods(cluster: Cluster, jobs: tuple[str, ...]) -> list[str]:
    """Names of the jobs' pods, whatever their state."""
    pods = await cluster.pods(JOB_LABEL)
    return [pod["metadata"]["name"] for pod in pods if pod["metadata"]["labels"][JOB_LABEL] in jobs]


async def prepare(cluster: Cluster, images: Images, jobs: tuple[str, ...], root: Path, console: Console) -> None:
    """Makes volumes, clears an earlier run's outputs, and writes the model and the data.

    Raises:
        DemoError: A pod of the jobs is still there, whose output would be lost; or a step failed.
    """
    left = await job_pods(cluster, jobs)
    if left:
        raise DemoError(f"outputs are not cleared under running jobs: {', '.join(left)}", "Is another demo running?")
    classes = await cluster.items("/apis/storage.k8s.io/v1/storageclasses")
    host_path = not any(is_default(storage_class) for storage_class in classes)
    file = root / "examples" / "volumes" / ("host-path.yaml" if host_path else "default-class.yaml")
    console.print(f"  volumes: {file.relative_to(root)}", highlight=False)
    await kubectl("apply", "-n", cluster.namespace, "-f", str(file))
    pod = OneOff(
        name="rowen-demo-samples",
        image=images.runtime,
        script=(
            "rm -rf /volumes/models/adapters/support /volumes/data/results.jsonl* /volumes/data/.results.jsonl*; "
            "python -m rowen.demo.samples --models /volumes/models --data /volumes/data"
        ),
        claims=CLAIMS,
        memory="3Gi",
        take_ownership=host_path,
    )
    await run_pod(cluster, pod, console, limit=240)


def is_default(storage_class: Object) -> bool:
    """Whether claims without a class get this one."""
    annotations: dict[str, str] = storage_class["metadata"].get("annotations", {})
    return annotations.get(_DEFAULT_CLASS) == "true"

"""The claims `models` and `data` of a test namespace, and a pod through which tests read and write them."""

from pathlib import Path
from typing import Any

from kit.kubectl import apply, get, kubectl, wait_until

HOST_ROOT = Path("/var/lib/rowen-dev/volumes")
TOOLBOX = "toolbox"
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "runAsGroup": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def claim(name: str, namespace: str, *, host_path: Path | None) -> list[dict[str, Any]]:
    """A claim; on the local cluster with a volume of its own, elsewhere of the default StorageClass."""
    spec: dict[str, Any] = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    made = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
    if host_path is None:
        return [made]
    spec["storageClassName"] = ""
    spec["volumeName"] = f"{namespace}-{name}"
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace}-{name}", "labels": {"rowen-e2e": namespace}},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": str(host_path), "type": "Directory"},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "claimRef": {"namespace": namespace, "name": name},
        },
    }
    return [volume, made]


def host_folder(namespace: str, name: str) -> Path:
    """A folder on this machine that any user may write to; both local nodes see it."""
    folder = HOST_ROOT / namespace / name
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)
    return folder


def start_toolbox(namespace: str, image: str, claims: list[str], node: str | None) -> None:
    """A sleeping pod with the claims at /volumes/NAME; on a node that no test stops, where `node` names one."""
    apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": TOOLBOX, "namespace": namespace},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "nodeSelector": {"kubernetes.io/hostname": node} if node else {},
                "securityContext": {"fsGroup": 65532},
                "containers": [
                    {
                        "name": TOOLBOX,
                        "image": image,
                        "command": ["sleep", "7200"],
                        "securityContext": RESTRICTED,
                        "volumeMounts": [{"name": name, "mountPath": f"/volumes/{name}"} for name in claims],
                    }
                ],
                "volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims],
            },
        }
    )
    wait_until(
        lambda: (get("pod", TOOLBOX, namespace) or {}).get("status", {}).get("phase") == "Running",
        f"pod {namespace}/{TOOLBOX} runs",
        180,
    )


def run(namespace: str, *command: str, timeout: float = 120) -> str:
    """Runs a command in the toolbox."""
    return kubectl("exec", "-n", namespace, TOOLBOX, "--", *command, timeout=timeout)


def write(namespace: str, path: str, text: str) -> None:
    """Writes a file below /volumes."""
    program = "import pathlib,sys; p=pathlib.Path(sys.argv[1]); p.parent.mkdir(parents=True, exist_ok=True); "
    program += "p.write_bytes(sys.stdin.buffer.read())"
    # By its standard input, since an argument has at most 128 KiB.
    kubectl("exec", "-i", "-n", namespace, TOOLBOX, "--", "python", "-c", program, f"/volumes/{path}", stdin=text)


def read(namespace: str, path: str) -> str:
    """Reads a file below /volumes."""
    return run(namespace, "cat", f"/volumes/{path}")


def exists(namespace: str, path: str) -> bool:
    """Whether a path below /volumes is there."""
    program = "import pathlib,sys; print(pathlib.Path(sys.argv[1]).exists())"
    return run(namespace, "python", "-c", program, f"/volumes/{path}").strip() == "True"

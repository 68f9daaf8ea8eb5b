"""The batch gateway in its pod, as docs/batch-api.md has it set up, and OpenAI's client for it."""

import json
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai

from kit import volumes
from kit.jobs.bucket import Bucket
from kit.kubectl import apply, condition, delete, get, items, kubectl, wait_until
from rowen.demo.cluster.install import RELEASE, RELEASE_NAMESPACE
from rowen.demo.cluster.kubectl import binary

NAME = f"{RELEASE}-gateway"
JOB_SECRET = "rowen-batch"
_HOST = f"{NAME}.{RELEASE_NAMESPACE}.svc"
_TLS_SECRET, _FILES_SECRET = NAME, "rowen-files"
_CHART = Path(__file__).parents[3] / "charts" / "rowen"


class Gateway:
    """The gateway as its users see it."""

    def __init__(self, certificate: Path) -> None:
        """Reached by the address of its Service; `certificate` is trusted."""
        service = get("service", NAME, RELEASE_NAMESPACE) or {}
        self._address = service["spec"]["clusterIP"]
        self._certificate = certificate

    def client(self, token: str, namespace: str) -> openai.OpenAI:
        """OpenAI's client. This machine does not ask the cluster's DNS, so the address is the Service's own."""

        def named(request: httpx.Request) -> None:
            request.extensions["sni_hostname"] = _HOST

        trusted = ssl.create_default_context(cafile=str(self._certificate))
        http = httpx.Client(verify=trusted, trust_env=False, event_hooks={"request": [named]})
        url = f"https://{self._address}/namespaces/{namespace}/v1"
        return openai.OpenAI(api_key=token, base_url=url, http_client=http, timeout=60)

    def ask_in_toolbox(self, namespace: str, token: str, question: str) -> str:
        """What an expression with OpenAI's `client` comes to in a pod of that namespace, by the cluster's DNS."""
        file = "data/gateway.crt"
        volumes.write(namespace, file, self._certificate.read_text())
        url = f"https://{_HOST}/namespaces/{namespace}/v1"
        program = f"import openai; client = openai.OpenAI(base_url={url!r}); print({question})"
        variables = (f"SSL_CERT_FILE=/volumes/{file}", f"OPENAI_API_KEY={token}")
        return volumes.run(namespace, "env", *variables, "python", "-c", program).strip()

    def kill(self) -> None:
        """Its pod is gone without a grace period; another one is Ready."""
        before = {pod["metadata"]["name"] for pod in _pods()}
        kubectl("delete", "pods", "-n", RELEASE_NAMESPACE, *before, "--force", "--grace-period=0", timeout=90)
        wait_until(
            lambda: [pod for pod in _pods() if pod["metadata"]["name"] not in before and _is_ready(pod)],
            "another pod of the gateway is Ready",
            120,
        )


def _pods() -> list[dict[str, Any]]:
    return items("pods", RELEASE_NAMESPACE, "app.kubernetes.io/component=gateway")


def _is_ready(pod: dict[str, Any]) -> bool:
    return condition(pod, "Ready").get("status") == "True"


@contextmanager
def running(bucket: Bucket, folder: Path) -> Iterator[Gateway]:
    """Switches the gateway on, and off again. Files are in the bucket; `folder` receives the certificate."""
    certificate, key = _certificate(folder)
    tls = kubectl(
        "create", "secret", "tls", _TLS_SECRET, "-n", RELEASE_NAMESPACE, f"--cert={certificate}", f"--key={key}",
        "--dry-run=client", "-o", "json",
    )  # fmt: skip
    apply(json.loads(tls), bucket.secret(_FILES_SECRET, RELEASE_NAMESPACE))
    storage = {"uri": bucket.uri("batches"), "secretName": _FILES_SECRET, "ports": [bucket.server.port]}
    try:
        _upgrade({"enabled": True, "tlsSecret": _TLS_SECRET, "storage": storage})
        wait_until(lambda: any(map(_is_ready, _pods())), "the gateway is Ready", 120)
        yield Gateway(certificate)
    finally:
        _upgrade({"enabled": False})
        for name in (_TLS_SECRET, _FILES_SECRET):
            delete("secret", name, RELEASE_NAMESPACE)


def _upgrade(batch_api: dict[str, Any]) -> None:
    helm = [binary("helm"), "upgrade", RELEASE, str(_CHART), "--namespace", RELEASE_NAMESPACE, "--reuse-values"]
    values = json.dumps({"batchApi": batch_api})
    done = subprocess.run([*helm, "--values=-"], input=values, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def _certificate(folder: Path) -> tuple[Path, Path]:
    certificate, key = folder / "tls.crt", folder / "tls.key"
    openssl = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
        "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{_HOST}", "-out", certificate, "-keyout", key,
    ]  # fmt: skip
    subprocess.run(openssl, check=True, capture_output=True, timeout=60)
    return certificate, key

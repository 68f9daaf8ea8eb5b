"""The gateway as its own process, without any rights, before a real API server and a real S3 server."""

import os
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
from apiserver import ApiServer, free_port
from certificates import issued
from prometheus_client.parser import text_string_to_metric_families
from s3 import S3Server

from rowen.crds.generate import REPOSITORY

START_SECONDS = 60.0
NOBODY = "system:serviceaccount:rowen-system:gateway"
MOST_BYTES, MOST_ROWS = 2**20, 50
JOB_SECRET = "batch-storage"
PREFIX = "rowen/batches"


@dataclass
class Gateway:
    """A running gateway."""

    port: int
    metrics_port: int
    trusted: ssl.SSLContext
    certificate: Path
    process: subprocess.Popen[bytes]

    def url(self, namespace: str | None) -> str:
        """OpenAI's base URL."""
        inner = f"/namespaces/{namespace}" if namespace else ""
        return f"https://127.0.0.1:{self.port}{inner}/v1"

    def metrics(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """What Prometheus would read: by name and labels."""
        told = httpx.get(f"http://127.0.0.1:{self.metrics_port}/metrics", trust_env=False, timeout=30)
        families = text_string_to_metric_families(told.raise_for_status().text)
        return {(each.name, frozenset(each.labels.items())): each.value for one in families for each in one.samples}

    def client(self, token: str, namespace: str | None) -> openai.OpenAI:
        """OpenAI's own client; it tries nothing again."""
        http = httpx.Client(verify=self.trusted, trust_env=False)
        return openai.OpenAI(api_key=token, base_url=self.url(namespace), http_client=http, max_retries=0, timeout=60)


@contextmanager
def gateway(server: ApiServer, s3: S3Server, bucket: str, folder: Path, **more: str) -> Iterator[Gateway]:
    """Runs one; `more` are further settings."""
    (folder / "tls").mkdir()
    port, metrics_port, trusted = free_port(), free_port(), issued(folder / "tls")
    settings = {
        "port": str(port),
        "metrics_port": str(metrics_port),
        "tls_folder": str(folder / "tls"),
        "storage_uri": f"s3://{bucket}/{PREFIX}",
        "storage_secret_folder": str(s3.secret(folder / "secret")),
        "job_secret_name": JOB_SECRET,
        "most_file_bytes": str(MOST_BYTES),
        "most_rows": str(MOST_ROWS),
        **more,
    }
    environment = {
        **os.environ,
        # A user whom nothing is allowed: all that the gateway does, it does as its callers.
        "KUBECONFIG": str(server.kubeconfig_for(NOBODY)),
        "PYTHONPATH": os.pathsep.join(str(REPOSITORY / part) for part in ("crds", "kube", "gateway")),
        **{f"ROWEN_GATEWAY_{name.upper()}": value for name, value in settings.items()},
    }
    log = folder / "gateway.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "rowen.gateway"], env=environment, stdout=stream, stderr=stream
        )
    try:
        _await(process, port, trusted)
        yield Gateway(port, metrics_port, trusted, folder / "tls" / "tls.crt", process)
    finally:
        process.terminate()
        process.wait(30)
        print(log.read_text())


def _await(process: subprocess.Popen[bytes], port: int, trusted: ssl.SSLContext) -> None:
    deadline = time.monotonic() + START_SECONDS
    with httpx.Client(verify=trusted, trust_env=False) as client:
        while process.poll() is None and time.monotonic() < deadline:
            try:
                if client.get(f"https://127.0.0.1:{port}/healthz").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.1)
    raise RuntimeError("the gateway does not start")


def row(custom_id: str, model: str = "chat", **changes: Any) -> dict[str, Any]:
    """A request of a batch file."""
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body, **changes}

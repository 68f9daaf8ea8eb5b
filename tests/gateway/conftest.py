"""A gateway, a namespace with a service, and users."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest
from accounts import account, allow, rule, token
from apiserver import ApiServer
from gateway.rig import Gateway
from gateway.rig import gateway as running
from manifests import apply
from s3 import S3Server, s3_server

from rowen.kube.client import Client

__all__ = ["s3_server"]

EDIT = (
    rule("rowen.dev", ["offlinejobs"], ["get", "list", "create", "patch", "delete"]),
    rule("rowen.dev", ["onlineservices"], ["get", "list"]),
)
SLO = {"ttft": {"target": "500ms"}, "tpot": {"target": "50ms"}}


@pytest.fixture(scope="session")
def gateway_bucket(s3_server: S3Server) -> str:
    """The bucket of the one gateway."""
    s3_server.filesystem().call_s3("create_bucket", Bucket="gateway")
    return "gateway"


@pytest.fixture(scope="session")
def gateway(
    api_server: ApiServer, s3_server: S3Server, gateway_bucket: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """One for all tests: nothing is kept in it."""
    with running(api_server, s3_server, gateway_bucket, tmp_path_factory.mktemp("gateway")) as found:
        yield found


@dataclass
class Team:
    """A namespace with the OnlineService `chat` and a service account that may edit."""

    kube: Client
    namespace: str
    token: str
    client: openai.OpenAI

    async def add(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        meta = {"name": name, "namespace": self.namespace}
        await apply(
            self.kube,
            {"apiVersion": "rowen.dev/v1alpha1", "kind": kind, "metadata": meta, "spec": spec},
            manager="test",
        )

    async def user(self, name: str, *rules: dict[str, list[str]]) -> str:
        """A token of another account with these rights."""
        await account(self.kube, self.namespace, name)
        await allow(self.kube, self.namespace, name, *rules)
        return await token(self.kube, self.namespace, name)


ENGINE = {
    "model": {"claimName": "models", "path": "llama-demo"},
    "memory": "2Gi",
    "memoryLimit": "3Gi",
    "args": ["--max-model-len=512", "--tool-call-parser", "hermes", "--port", "9000", "--enable-auto-tool-choice"],
}


@pytest.fixture
async def team(kube: Client, namespace: str, gateway: Gateway) -> AsyncIterator[Team]:
    """A team of its own for each test."""
    found = Team(kube, namespace, "", None)  # type: ignore[arg-type]
    found.token = await found.user("ann", *EDIT)
    found.client = gateway.client(found.token, namespace)
    await found.add("OnlineService", "chat", {"engine": ENGINE, "slo": SLO})
    yield found
    found.client.close()


@pytest.fixture
def upload(team: Team, tmp_path: Path) -> Any:
    """Uploads rows; gives the file's id."""
    import json

    def uploaded(*rows: Any, name: str = "requests.jsonl") -> str:
        text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in rows)
        return team.client.files.create(file=(name, text.encode()), purpose="batch").id

    return uploaded

"""Rendered manifests against the API's published schemas, strictly, by kubeconform."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from apiserver import BINARIES, ApiServer
from helm import VALUE_SETS, template
from kubectl import Kubectl

# Kinds of other projects, whose schemas this API server does not have.
FOREIGN = "PodMonitor,PrometheusRule"


@pytest.fixture(scope="module")
def schemas(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One JSON schema per kind, made from what the API server publishes; unknown fields are refused."""
    folder = tmp_path_factory.mktemp("schemas")
    published = json.loads(Kubectl(api_server.kubeconfig).run("get", "--raw", "/openapi/v2").text)
    definitions = published["definitions"]
    for definition in definitions.values():
        if definition.get("properties"):
            definition.setdefault("additionalProperties", False)
    # Quantities and ports are written as numbers or as text.
    for name in ("io.k8s.apimachinery.pkg.api.resource.Quantity", "io.k8s.apimachinery.pkg.util.intstr.IntOrString"):
        definitions[name] = {"oneOf": [{"type": "string"}, {"type": "number"}]}
    (folder / "definitions.json").write_text(json.dumps({"definitions": definitions}))
    for name, definition in definitions.items():
        for kind in definition.get("x-kubernetes-group-version-kind", []):
            (folder / _file(kind)).write_text(json.dumps({"$ref": f"definitions.json#/definitions/{name}"}))
    return folder


def _file(kind: dict[str, str]) -> str:
    return f"{kind['group']}_{kind['version']}_{kind['kind']}.json".lower().lstrip("_")


def _kubeconform(schemas: Path, manifests: str) -> dict[str, Any]:
    location = f"{schemas}/{{{{ .Group }}}}_{{{{ .ResourceAPIVersion }}}}_{{{{ .ResourceKind }}}}.json"
    core = f"{schemas}/{{{{ .ResourceAPIVersion }}}}_{{{{ .ResourceKind }}}}.json"
    done = subprocess.run(
        [BINARIES / "kubeconform", "-output=json", "-verbose", f"-skip={FOREIGN}", f"-schema-location={location}",
         f"-schema-location={core}", "-"],
        input=manifests, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.parametrize("name", VALUE_SETS)
def test_rendered_manifests_conform(schemas: Path, name: str) -> None:
    resources = _kubeconform(schemas, template(VALUE_SETS[name]))["resources"]
    wrong = [resource for resource in resources if resource["status"] not in {"statusValid", "statusSkipped"}]
    assert wrong == []
    assert sum(resource["status"] == "statusValid" for resource in resources) > 10


def test_a_wrong_manifest_does_not_conform(schemas: Path) -> None:
    manifest = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"portz": []}}
    (resource,) = _kubeconform(schemas, json.dumps(manifest))["resources"]
    assert resource["status"] == "statusInvalid"
    assert "portz" in resource["msg"]

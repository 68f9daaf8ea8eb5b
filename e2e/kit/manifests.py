"""The objects that the tests apply, built as a user would write them."""

import copy
from typing import Any

API_VERSION = "rowen.dev/v1alpha1"
ENGINE_MEMORY, ENGINE_MEMORY_LIMIT = "3024Mi", "3Gi"
SLO = {"ttft": {"percentile": 99, "target": "2s"}, "tpot": {"percentile": 99, "target": "200ms"}}


def model(path: str) -> dict[str, str]:
    """A model on the `models` claim."""
    return {"claimName": "models", "path": path}


def online_service(
    name: str, namespace: str, model_path: str, *, replicas: int = 1, harvest: bool = True
) -> dict[str, Any]:
    """An OnlineService that Rowen runs."""
    return {
        "apiVersion": API_VERSION,
        "kind": "OnlineService",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "engine": {
                "model": model(model_path),
                "replicas": replicas,
                "memory": ENGINE_MEMORY,
                "memoryLimit": ENGINE_MEMORY_LIMIT,
                "args": ["--dtype=float32", "--max-model-len=512", "--max-num-seqs=16"],
            },
            "slo": copy.deepcopy(SLO),
            # As often as may be, so that memory is soon lent out again after a burst.
            "harvest": {"enabled": harvest, "memory": {"targetReclaimsPerHour": 600}},
        },
    }


def job(name: str, namespace: str, spec: dict[str, Any]) -> dict[str, Any]:
    """An OfflineJob with that spec."""
    return {
        "apiVersion": API_VERSION,
        "kind": "OfflineJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"memory": "2Gi", **spec},
    }


def fine_tune(name: str, namespace: str, model_path: str, dataset: str, output: str, **fields: Any) -> dict[str, Any]:
    """A fine-tuning job; `fields` go into `spec.fineTune`."""
    return job(
        name,
        namespace,
        {
            "fineTune": {
                "baseModel": model(model_path),
                "dataset": {"claimName": "data", "path": dataset},
                "output": {"claimName": "models", "path": output},
                "lora": {"rank": 4, "targetModules": ["q_proj", "v_proj"]},
                **fields,
            }
        },
    )


def batch(name: str, namespace: str, model_path: str, requests: str, results: str, **fields: Any) -> dict[str, Any]:
    """A batch inference job; `fields` go into `spec`."""
    return job(
        name,
        namespace,
        {
            "batchInference": {
                "model": model(model_path),
                "input": {"claimName": "data", "path": requests},
                "output": {"claimName": "data", "path": results},
            },
            "memory": "2560Mi",
            **fields,
        },
    )


def spinning(name: str, namespace: str, image: str, **fields: Any) -> dict[str, Any]:
    """A job of the `template` kind whose pod computes until it is removed."""
    container = {
        "name": "worker",
        "image": image,
        "command": ["python", "-c", "while True: pass"],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    return job(name, namespace, {"memory": "256Mi", "template": {"spec": {"containers": [container]}}, **fields})

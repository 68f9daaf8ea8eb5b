"""A service in whose engine jobs ride, and what its agent says of them."""

from typing import Any

from kit import manifests, pool, volumes
from kit.kubectl import apply, get, items, wait_condition, wait_until
from rowen.crds.harvest.device_detail import DeviceDetail
from rowen.crds.harvest.node_harvest import OfflineTenant

MODEL = "riding"
"""On the claim `models`."""
DTYPE = "--dtype=float32"
# An engine takes riders in the type that its model's files have, and a job computes in float32 by default.
_MAKE = f"""
import json
from pathlib import Path
from safetensors.torch import load_file, save_file
from rowen.demo.samples import Shape, write_model

folder = Path("/volumes/models/{MODEL}")
write_model(folder, Shape(layers=2, hidden=128, intermediate=256, heads=4, key_value_heads=2))
weights = {{name: tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()}}
save_file(weights, folder / "model.safetensors", metadata={{"format": "pt"}})
settings = json.loads((folder / "config.json").read_text())
(folder / "config.json").write_text(json.dumps(settings | {{"dtype": "float32"}}))
"""
_LOAD = f"""
import sys
from peft import PeftModel
from transformers import AutoModelForCausalLM

base = AutoModelForCausalLM.from_pretrained("/volumes/models/{MODEL}")
model = PeftModel.from_pretrained(base, sys.argv[1])
print(sum(float(weight.abs().sum()) for name, weight in model.named_parameters() if "lora_B" in name))
"""


def make_model(namespace: str) -> None:
    """Writes the model, which computes in no time."""
    volumes.run(namespace, "python", "-c", _MAKE, timeout=240)


def learned(namespace: str, adapter: str) -> float:
    """What an adapter on the claim `models` changes: the sum of its second matrices, which begin as zeros."""
    return float(volumes.run(namespace, "python", "-c", _LOAD, f"/volumes/models/{adapter}", timeout=300))


def start_service(name: str, namespace: str) -> None:
    """Starts it, and waits until its engine has a node: it is not ready then."""
    service = manifests.online_service(name, namespace, MODEL)
    service["spec"]["harvest"] |= {"mode": "CoServe", "coServe": {"memory": "512Mi"}}
    apply(service)
    wait_until(lambda: _placed(engine_pods(name, namespace)), f"{name}'s engine has a node", 60)


def _placed(pods: list[dict[str, Any]]) -> bool:
    return len(pods) == 1 and "nodeName" in pods[0]["spec"]


def wait_service(name: str, namespace: str) -> None:
    """Waits until jobs may ride."""
    wait_condition("osvc", name, namespace, "Ready", timeout_seconds=400)
    wait_seats(name)


def wait_seats(service: str) -> DeviceDetail:
    """The engine's device, once the engine takes riders in."""

    def found() -> DeviceDetail | None:
        _, device = pool.find(service) or (None, None)
        return device if device is not None and device.co_serving is not None else None

    return wait_until(found, f"{service}'s engine takes riders in", 240) or _nowhere()


def _nowhere() -> DeviceDetail:
    raise LookupError("no device")


def riders(service: str) -> list[OfflineTenant]:
    """Jobs' pods in the engine's seats, as its agent says now."""
    _, device = pool.find(service) or (None, None)
    return [tenant for tenant in device.tenants if tenant.mode == "CoServe"] if device else []


def assignment(job: str, namespace: str) -> dict[str, Any]:
    """Of a job; empty while it has none."""
    return dict((get("ojob", job, namespace) or {}).get("status", {}).get("assignment") or {})


def wait_placed(job: str, namespace: str, timeout_seconds: float = 180) -> dict[str, Any]:
    """Its assignment, once it has one."""
    return wait_until(lambda: assignment(job, namespace), f"{job} is placed", timeout_seconds)


def engine_pods(service: str, namespace: str) -> list[dict[str, Any]]:
    """Of the service."""
    return items("pods", namespace, f"rowen.dev/service={service}")

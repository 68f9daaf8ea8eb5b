"""Where the engines answer in which batches ride."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from rowen.crds.job.batch_inference import BatchInference
from rowen.crds.names import SERVED_ANNOTATION, SERVICE_LABEL
from rowen.crds.service.online_service import OnlineServiceSpec
from rowen.crds.service.served import served_digest
from rowen.operator.jobs.snapshot import JobSnapshot
from rowen.operator.pods.engine_address import EngineAddress
from rowen.operator.services.co_serving import answers_rows
from rowen.operator.services.manifests import PORT
from rowen.operator.world.store import Key, Store

Manifest = Mapping[str, Any]


def engine_address(store: Store, job: JobSnapshot, now: float) -> EngineAddress | None:
    """That of the engine on the assignment's device of a batch that rides.

    None where no fresh report names it, its pod has no address, or ends, or serves something else.
    """
    held, batch = job.assignment, job.spec.batch_inference
    report = job.reports.get(held.node) if held else None
    if held is None or not held.rides or batch is None or report is None or not report.fresh(now):
        return None
    engines = (device.online.pod for device in report.devices if device.id in held.devices and device.online)
    # Rows are shown to nobody of another namespace, whoever has the device by now.
    pods = (store.get(Key("Pod", job.namespace, pod.name)) for pod in engines if pod.namespace == job.namespace)
    suited = (pod for pod in pods if pod and _answers(store, pod, batch))
    return next((found for pod in suited if (found := _address_of(pod, held.node))), None)


def _answers(store: Store, engine: Manifest, batch: BatchInference) -> bool:
    """Whether it answers what its service says now: the scheduler, which goes by that, may be away or late."""
    metadata = engine["metadata"]
    name = (metadata.get("labels") or {}).get(SERVICE_LABEL) or ""
    service = store.get(Key("OnlineService", metadata["namespace"], name))
    try:
        spec = OnlineServiceSpec.from_wire(service["spec"]) if service else None
    except ValidationError:
        return False
    if spec is None or spec.engine is None:
        return False
    said = (metadata.get("annotations") or {}).get(SERVED_ANNOTATION)
    return said == served_digest(spec.engine) and answers_rows(spec, batch)


def _address_of(engine: Manifest, node: str) -> EngineAddress | None:
    status = engine.get("status") or {}
    address, ends = status.get("podIP"), status.get("phase") in ("Succeeded", "Failed")
    # An agent speaks for its own node alone.
    if not address or ends or engine["metadata"].get("deletionTimestamp") or engine["spec"].get("nodeName") != node:
        return None
    host = f"[{address}]" if ":" in address else address
    return EngineAddress(f"http://{host}:{PORT}", engine["metadata"]["name"])

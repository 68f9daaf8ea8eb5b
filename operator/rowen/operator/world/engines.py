"""Where the engines answer in which jobs ride."""

from collections.abc import Mapping
from typing import Any

from rowen.crds.job.offline_job_status import Assignment
from rowen.operator.services.manifests import PORT
from rowen.operator.world.reports import Report
from rowen.operator.world.store import Key, Store

Manifest = Mapping[str, Any]


def engine_url(
    store: Store, namespace: str, held: Assignment | None, reports: Mapping[str, Report], now: float
) -> str | None:
    """That of the engine of this namespace on an assignment's device.

    None where no fresh report names it, its pod has no address, or ends.
    """
    report = reports.get(held.node) if held else None
    if held is None or report is None or not report.fresh(now):
        return None
    engines = (device.online.pod for device in report.devices if device.id in held.devices and device.online)
    # Rows are shown to nobody of another namespace, whoever has the device by now.
    pods = (store.get(Key("Pod", namespace, pod.name)) for pod in engines if pod.namespace == namespace)
    return next((url for pod in pods if pod and (url := _url_of(pod, held.node))), None)


def _url_of(engine: Manifest, node: str) -> str | None:
    status = engine.get("status") or {}
    address, ends = status.get("podIP"), status.get("phase") in ("Succeeded", "Failed")
    # An agent speaks for its own node alone.
    if not address or ends or engine["metadata"].get("deletionTimestamp") or engine["spec"].get("nodeName") != node:
        return None
    return f"http://[{address}]:{PORT}" if ":" in address else f"http://{address}:{PORT}"

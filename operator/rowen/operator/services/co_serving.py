"""On which terms jobs ride in a service's engine."""

from collections.abc import Sequence
from typing import Any

from rowen.crds.base import quantity_bytes
from rowen.crds.harvest.node_harvest import DeviceHarvest
from rowen.crds.job.batch_inference import BatchInference
from rowen.crds.job.riding_rows import rows_obstacle
from rowen.crds.names import ENGINE_POD_ENV, RIDE_TERMS_ENV
from rowen.crds.ride.terms import RideTerms
from rowen.crds.service.online_service import OnlineServiceSpec
from rowen.operator.services.bounds import bound


def ride_terms(spec: OnlineServiceSpec) -> RideTerms | None:
    """None where no job rides. That harvesting is switched off changes nothing: the engine goes on as it is."""
    if spec.harvest.mode != "CoServe" or spec.engine is None or spec.slo.without_time():
        return None
    return RideTerms(
        ttft=bound(spec.slo.ttft),
        tpot=bound(spec.slo.tpot),
        memory_bytes=quantity_bytes(spec.harvest.co_serve.memory),
        defer_prefills=spec.harvest.co_serve.defer_prefills,
    )


def ride_environment(terms: RideTerms | None) -> list[dict[str, Any]]:
    """Environment by which an engine takes riders in, and tells batches which one it is."""
    if terms is None:
        return []
    # What says nothing is left out: engines that were told without it go on as they are.
    return [
        {"name": RIDE_TERMS_ENV, "value": terms.model_dump_json(by_alias=True, exclude_defaults=True)},
        {"name": ENGINE_POD_ENV, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]


def answers_rows(spec: OnlineServiceSpec, batch: BatchInference) -> bool:
    """Whether the service's engines answer the batch's rows as one of its own would."""
    if spec.engine is None or ride_terms(spec) is None:
        return False
    same_model = spec.engine.model.reference == batch.model.reference
    return same_model and rows_obstacle(batch, spec.engine.args) is None


def riding_told(spec: OnlineServiceSpec, devices: Sequence[DeviceHarvest]) -> str:
    """In how many of its engines jobs can ride, behind another sentence; empty where the service has none ride."""
    if spec.harvest.mode != "CoServe":
        return ""
    if without := spec.slo.without_time():
        return f"; no job rides in its engines: {without} is 0"
    found = [device.co_serving for device in devices if device.co_serving]
    ended = [each.ended for each in found if each.ended]
    told = f"; jobs can ride in {len(found) - len(ended)} of {len(devices)} engines"
    return f"{told}; in {len(ended)} that has ended until it is started anew: {ended[0]}" if ended else told

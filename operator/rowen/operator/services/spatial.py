"""On which terms a service's engine shares its device with offline work while it serves."""

from rowen.crds.job.offline_job_status import SPATIAL
from rowen.crds.names import SPATIAL_TERMS_ENV
from rowen.crds.ride.terms import SpatialTerms
from rowen.crds.service.online_service import OnlineServiceSpec
from rowen.operator.services.bounds import bound


def spatial_terms(spec: OnlineServiceSpec) -> SpatialTerms | None:
    """None where nothing runs beside requests. That harvesting is switched off changes nothing: the engine goes on."""
    if spec.harvest.mode != SPATIAL or spec.engine is None or spec.slo.without_time():
        return None
    return SpatialTerms(ttft=bound(spec.slo.ttft), tpot=bound(spec.slo.tpot))


def spatial_environment(terms: SpatialTerms | None) -> list[dict[str, str]]:
    """Environment by which an engine says the share."""
    if terms is None:
        return []
    return [{"name": SPATIAL_TERMS_ENV, "value": terms.model_dump_json(by_alias=True)}]


def sharing_told(spec: OnlineServiceSpec) -> str:
    """Why it shares none of its devices while it serves, behind another sentence; empty where it does as it says."""
    without = spec.slo.without_time() if spec.harvest.mode == SPATIAL else ""
    return f"; nothing runs beside its requests: {without} is 0" if without else ""

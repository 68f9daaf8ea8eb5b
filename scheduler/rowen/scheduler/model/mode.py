"""In which mode a job has its place: as the API says it, and for people."""

from rowen.crds.job.offline_job_status import CO_SERVE, SPATIAL
from rowen.crds.service.online_service import OnlineServiceSpec

_WORDS = {CO_SERVE: ", in its engine (CoServe)", SPATIAL: ", beside its engine (Spatial)"}


def mode_of(*, rides: bool, shares: bool) -> str | None:
    """None: `Preempt`. `rides`: it is a seat in an engine; `shares`: its devices are shared with requests."""
    if rides:
        return CO_SERVE
    return SPATIAL if shares else None


def shares_devices(spec: OnlineServiceSpec) -> bool:
    """Whether offline work goes on beside the service's requests, on a share of its devices."""
    return spec.harvest.mode == SPATIAL and spec.engine is not None and not spec.slo.without_time()


def mode_told(mode: str | None) -> str:
    """Behind the name of a place, for people; empty for `Preempt`, and for what a newer release says."""
    return _WORDS.get(mode or "", "")


def seatless(not_seated: str, told: str = "") -> str:
    """Why the job goes into no engine, as the end of a message; empty where that is `told` already, or no reason."""
    return f"; not in an engine (CoServe): {not_seated}" if not_seated and not_seated not in told else ""

"""In which mode a job has its place: as the API says it, and for people."""

from rowen.crds.job.offline_job_status import CO_SERVE, SPATIAL

_WORDS = {CO_SERVE: ", in its engine (CoServe)", SPATIAL: ", beside its engine (Spatial)"}


def mode_of(*, rides: bool, shares: bool) -> str | None:
    """None: `Preempt`. `rides`: it is a seat in an engine; `shares`: its devices are shared with requests."""
    if rides:
        return CO_SERVE
    return SPATIAL if shares else None


def mode_told(mode: str | None) -> str:
    """Behind the name of a place, for people; empty for `Preempt`, and for what a newer release says."""
    return _WORDS.get(mode or "", "")

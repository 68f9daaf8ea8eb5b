"""What is asked over HTTP, and what is answered."""

from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from rowen.crds.base import ApiModel, Name
from rowen.crds.faults import FieldFaultsError
from rowen.crds.faults import faults as found
from rowen.crds.job.job_rules import broken_rules
from rowen.crds.job.offline_job import OfflineJobSpec
from rowen.crds.job.offline_job_status import Assignment, CandidateExplanation, Throughput
from rowen.crds.pod.template_rules import template_faults

TOKEN_HEADER = "X-Rowen-Token"  # noqa: S105
"""The token, where `Authorization` does not arrive: the API server's proxy keeps that one for itself."""
MOST_ADDED, MOST_REMOVED, MOST_TOLD = 20, 200, 500
MOST_OFFSET = 1_000_000
_MOST_FAULTS = 5


def faults(error: ValidationError) -> list[tuple[str, str]]:
    """Field, and what was expected of it, of the first faults; without what was given."""
    return [(fault.field, fault.words) for fault in found(error)[:_MOST_FAULTS]]


def _ruled(spec: OfflineJobSpec) -> OfflineJobSpec:
    broken = broken_rules(spec)
    if broken:
        raise ValueError("; ".join(broken))
    # Of a template without a container more is not said.
    if wrong := template_faults(spec):
        field, words = wrong.pop()
        raise FieldFaultsError([*wrong, (field, f"{words} (the job would end as InvalidTemplate)")])
    return spec


class HypotheticalJob(ApiModel):
    """A job that does not exist."""

    namespace: Name = "default"
    """Namespace that it would be in."""
    name: Annotated[Name, Field(max_length=63)] = "hypothetical"
    """Its name."""
    spec: Annotated[OfflineJobSpec, AfterValidator(_ruled)]
    """Its spec."""


class WhatIf(ApiModel):
    """How the world differs."""

    add: Annotated[list[HypotheticalJob], Field(max_length=MOST_ADDED)] = []
    """Jobs that are added."""
    remove_jobs: Annotated[list[str], Field(max_length=MOST_REMOVED)] = []
    """Jobs that are taken away, as `namespace/name`."""
    remove_nodes: Annotated[list[str], Field(max_length=MOST_REMOVED)] = []
    """Nodes that are taken away."""

    @model_validator(mode="after")
    def _one_wish_for_each(self) -> Self:
        both = sorted({f"{job.namespace}/{job.name}" for job in self.add} & set(self.remove_jobs))
        if both:
            words = "is in add, too, and what is added stands for the job of its name: it was expected in one of them"
            raise FieldFaultsError([("removeJobs", f"{job} {words}") for job in both])
        return self

    @property
    def namespaces(self) -> frozenset[str]:
        """Those that it speaks of."""
        return frozenset((*(job.namespace for job in self.add), *(job.split("/")[0] for job in self.remove_jobs)))


class PageQuery(ApiModel):
    """Which of a job's candidates are asked for."""

    limit: Annotated[int, Field(ge=1, le=MOST_TOLD)] = MOST_TOLD
    """So many at most; the last page has fewer."""
    offset: Annotated[int, Field(ge=0, le=MOST_OFFSET)] = 0
    """How many to pass over."""


class CandidateReply(CandidateExplanation):
    """A candidate, and who is there already."""

    jobs: list[str] = []
    """Jobs on its devices that the caller may see, as `namespace/name`."""
    other_jobs: int = 0
    """How many more there are, of other namespaces."""


class ExplanationReply(ApiModel):
    """Candidates with their factors."""

    message: str
    """Summary in a sentence."""
    candidates: list[CandidateReply] = []
    """Best first."""


class PredictionReply(ApiModel):
    """Where a job would go now."""

    fits: bool
    """Whether it would be placed at once."""
    solo_tokens_per_second: float | None = None
    """Throughput of its workload class alone on a device, where that is known."""
    explanation: ExplanationReply


class PlaceReply(ApiModel):
    """Where a job is."""

    node: str
    devices: list[str]


class JobReply(ApiModel):
    """What would happen to one job."""

    namespace: str
    name: str
    action: str
    """keep, place, revoke, wait or hold."""
    node: str | None = None
    devices: list[str] = []
    mode: str | None = None
    """`CoServe`: in the engine of its device; `Spatial`: beside it, while it serves too; absent: beside it."""
    predicted_fraction: float | None = None
    predicted_tokens_per_second: float | None = None
    """Where the throughput of its class alone on such a device is known."""
    message: str
    not_seated: str | None = None
    """Of one that would be placed beside an engine: why not in one, where an engine of its namespace takes jobs in."""
    candidates: list[CandidateReply] | None = None
    """Of a job that was added: the places that were looked at."""
    present: PlaceReply | None = None
    """Of a job that was added, where the one of its name is now and stays; the rest is of a new one in its stead."""


class WhatIfReply(ApiModel):
    """What one pass would decide."""

    jobs: list[JobReply]
    """The jobs that the caller may see; those that were added come first."""
    left_off: int = 0
    """How many more of these there are."""
    others: dict[str, int] = {}
    """What would happen to jobs of other namespaces: how many, by action."""


class ExplainReply(ApiModel):
    """What is known of one job."""

    namespace: str
    name: str
    conditions: list[dict[str, Any]]
    assignment: Assignment | None = None
    throughput: Throughput | None = None
    explanation: ExplanationReply | None = None
    """Of a job that waits every candidate as of now; of another its place."""

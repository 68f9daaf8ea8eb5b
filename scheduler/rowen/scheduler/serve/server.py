"""HTTP: predictions, what-if, explanations, health and metrics, from the same snapshot as the decisions."""

from typing import Annotated, Any, Protocol

from fastapi import FastAPI, HTTPException, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from pydantic import Field

from rowen.crds.base import ApiModel, Name
from rowen.crds.offline_job import Assignment, Explanation, OfflineJobSpec, Throughput
from rowen.scheduler.decision import Outcome
from rowen.scheduler.history import History
from rowen.scheduler.placement.request import Choice
from rowen.scheduler.policy import Policy
from rowen.scheduler.serve.explanation import explain
from rowen.scheduler.serve.whatif import changed, predict, what_if
from rowen.scheduler.snapshot import JobView, Snapshot
from rowen.scheduler.world.facts import new_job


class HypotheticalJob(ApiModel):
    """A job that does not exist."""

    namespace: Name = "default"
    """Namespace that it would be in."""
    name: Name = "hypothetical"
    """Its name."""
    spec: OfflineJobSpec
    """Its spec."""


class WhatIf(ApiModel):
    """How the world differs."""

    add: Annotated[list[HypotheticalJob], Field(max_length=1000)] = []
    """Jobs that are added."""
    remove_jobs: Annotated[list[str], Field(max_length=1000)] = []
    """Jobs that are taken away, as `namespace/name`."""
    remove_nodes: Annotated[list[str], Field(max_length=1000)] = []
    """Nodes that are taken away."""


class PredictionReply(ApiModel):
    """Where a job would go now."""

    fits: bool
    """Whether it would be placed at once."""
    solo_tokens_per_second: float | None = None
    """Throughput of its workload class alone on a device, where that is known."""
    explanation: Explanation
    """Every candidate with its factors."""


class JobReply(ApiModel):
    """What would happen to one job."""

    namespace: str
    name: str
    action: str
    """keep, place, revoke, wait or hold."""
    node: str | None = None
    devices: list[str] = []
    predicted_fraction: float | None = None
    message: str


class WhatIfReply(ApiModel):
    """What one pass would decide."""

    jobs: list[JobReply]


class ExplainReply(ApiModel):
    """What is known of one job."""

    namespace: str
    name: str
    conditions: list[dict[str, Any]]
    assignment: Assignment | None = None
    throughput: Throughput | None = None
    explanation: Explanation | None = None


class Source(Protocol):
    """Where answers come from."""

    policy: Policy
    history: History

    def now(self) -> float:
        """Unix seconds."""

    def alive(self) -> bool:
        """Whether the loop turns."""

    def snapshot(self) -> Snapshot | None:
        """The cluster now; None while that is not known."""


def create_app(source: Source, registry: CollectorRegistry) -> FastAPI:
    """The application; every answer comes from `source`."""
    app = FastAPI(title="Rowen scheduler", docs_url=None, redoc_url=None)

    def snapshot() -> Snapshot:
        found = source.snapshot()
        if found is None:
            raise HTTPException(503, "the cluster's state is not known at the moment")
        return found

    # Plain functions would run in a thread beside the loop that changes what they read.
    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        if not source.alive():
            raise HTTPException(503, "the scheduling loop is stuck")
        return {"status": "ok"}

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    @app.post("/v1/predict", response_model_exclude_none=True)
    async def predict_job(request: HypotheticalJob) -> PredictionReply:
        job = hypothetical(request, source.now())
        choice = predict(snapshot(), source.history, job, source.now(), source.policy)
        return _prediction(choice, job, source.history)

    @app.post("/v1/what-if", response_model_exclude_none=True)
    async def ask_what_if(request: WhatIf) -> WhatIfReply:
        added = [hypothetical(job, source.now(), number) for number, job in enumerate(request.add)]
        world = changed(snapshot(), added, set(request.remove_jobs), set(request.remove_nodes))
        decision = what_if(world, source.history, source.now(), source.policy)
        return WhatIfReply(jobs=[_job(outcome) for outcome in decision.outcomes])

    @app.get("/v1/explain/{namespace}/{name}", response_model_exclude_none=True)
    async def explain_job(namespace: str, name: str) -> ExplainReply:
        job = next((job for job in snapshot().jobs.values() if (job.namespace, job.name) == (namespace, name)), None)
        if job is None:
            raise HTTPException(404, f"no OfflineJob {namespace}/{name} that Rowen manages")
        status = job.status
        return ExplainReply(
            namespace=namespace,
            name=name,
            conditions=[condition.to_wire() for condition in status.conditions],
            assignment=status.assignment,
            throughput=status.throughput,
            explanation=status.explanation,
        )

    return app


def _check(request: HypotheticalJob) -> None:
    """The rule that the API server enforces by CEL. Raises 422."""
    spec = request.spec
    if sum(part is not None for part in (spec.fine_tune, spec.batch_inference, spec.template)) != 1:
        raise HTTPException(422, "spec: exactly one of fineTune, batchInference, template must be set")


def hypothetical(request: HypotheticalJob, now: float, number: int = 0) -> JobView:
    """The job as if it had been created now."""
    _check(request)
    return new_job(request.spec, f"hypothetical-{number}", request.namespace, request.name, now + number * 1e-6)


def _prediction(choice: Choice, job: JobView, history: History) -> PredictionReply:
    best = choice.chosen
    if best is not None:
        message = f"would be placed on {best.place}: predicted {best.prediction.fraction:.2f}"
    else:
        message = "would wait" if choice.candidates else "no node reports a harvested device"
    rates = [profile.tokens_per_second for key, profile in history.profiles.items() if key[0] == job.workload]
    return PredictionReply(
        fits=best is not None,
        solo_tokens_per_second=max(rates, default=None),
        explanation=explain(message, choice.candidates),
    )


def _job(outcome: Outcome) -> JobReply:
    placement = outcome.placement
    return JobReply(
        namespace=outcome.job.namespace,
        name=outcome.job.name,
        action=outcome.action.value,
        node=placement.node if placement else None,
        devices=list(placement.devices) if placement else [],
        predicted_fraction=None if outcome.fraction is None else round(outcome.fraction, 3),
        message=outcome.message,
    )

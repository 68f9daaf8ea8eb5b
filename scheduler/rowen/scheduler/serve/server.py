"""HTTP: predictions, what-if and explanations, from the same snapshot as the decisions.

Whoever asks says who they are.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Protocol

from fastapi import Depends, FastAPI, HTTPException

from rowen.scheduler.history import History
from rowen.scheduler.placement.search.choice import Page
from rowen.scheduler.policy import Policy
from rowen.scheduler.serve.access import Door, Guest
from rowen.scheduler.serve.body_limit import BodyLimit
from rowen.scheduler.serve.messages import (
    ExplainReply,
    HypotheticalJob,
    PageQuery,
    PredictionReply,
    WhatIf,
    WhatIfReply,
)
from rowen.scheduler.serve.refusals import read_as, read_query
from rowen.scheduler.serve.reviews import Reviewer
from rowen.scheduler.serve.telling import Teller
from rowen.scheduler.serve.turns import BusyError, Turns
from rowen.scheduler.serve.whatif import absent, candidates, changed, predict, present, what_if
from rowen.scheduler.snapshot import JobView, Snapshot
from rowen.scheduler.world.facts import new_job


class Source(Protocol):
    """Where answers come from."""

    policy: Policy
    history: History

    def now(self) -> float:
        """Unix seconds."""

    def snapshot(self) -> Snapshot | None:
        """The cluster now; None while that is not known."""


def create_app(source: Source, reviewer: Reviewer) -> FastAPI:
    """The application; every answer comes from `source`, and `reviewer` says who may have it."""
    app = FastAPI(title="Rowen scheduler", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(BodyLimit)
    door, turns = Depends(Door(reviewer)), Turns()

    # Plain functions would run in a thread beside the loop that changes what they read.
    @app.post("/v1/predict", response_model_exclude_none=True)
    async def predict_job(
        guest: Annotated[Guest, door], request: Annotated[HypotheticalJob, Depends(read_as(HypotheticalJob))]
    ) -> PredictionReply:
        sight = await guest.jobs([request.namespace])
        async with _turn(turns):
            job, world = hypothetical(request, source.now()), _snapshot(source)
            prospect = predict(world, source.history, job, source.now(), source.policy)
            return Teller(world, source.history, sight).prediction(prospect, job)

    @app.post("/v1/what-if", response_model_exclude_none=True)
    async def ask_what_if(
        guest: Annotated[Guest, door], request: Annotated[WhatIf, Depends(read_as(WhatIf))]
    ) -> WhatIfReply:
        if request.remove_nodes:
            await guest.nodes()
        sight = await guest.jobs(request.namespaces)
        async with _turn(turns):
            added = [hypothetical(job, source.now(), number) for number, job in enumerate(request.add)]
            before = _snapshot(source)
            world = _changed(before, added, request)
            decision = what_if(world, source.history, source.now(), source.policy)
            teller = Teller(world, source.history, sight)
            held = present(before, added, request.remove_nodes)
            return teller.decision(decision.outcomes, {job.uid: held.get(job.uid) for job in added})

    @app.get("/v1/explain/{namespace}/{name}", response_model_exclude_none=True)
    async def explain_job(
        namespace: str,
        name: str,
        guest: Annotated[Guest, door],
        query: Annotated[PageQuery, Depends(read_query(PageQuery))],
    ) -> ExplainReply:
        sight = await guest.job(namespace, name)
        async with _turn(turns):
            world = _snapshot(source)
            job = _job(world, namespace, name)
            look = partial(candidates, world, source.history, job, source.now(), source.policy)
            return Teller(world, source.history, sight).job(job, Page(query.offset, query.limit), look)

    return app


@asynccontextmanager
async def _turn(turns: Turns) -> AsyncIterator[None]:
    try:
        async with turns.take():
            yield
    except BusyError:
        raise HTTPException(503, "too many questions at once; try again later", {"Retry-After": "5"}) from None


def _snapshot(source: Source) -> Snapshot:
    """Raises 503."""
    found = source.snapshot()
    if found is None:
        raise HTTPException(503, "the cluster's state is not known at the moment")
    return found


def _changed(world: Snapshot, added: list[JobView], request: WhatIf) -> Snapshot:
    """Raises 422."""
    missing = absent(world, request.remove_jobs, request.remove_nodes)
    if missing:
        raise HTTPException(422, "; ".join(missing[:5]))
    return changed(world, added, set(request.remove_jobs), set(request.remove_nodes))


def _job(world: Snapshot, namespace: str, name: str) -> JobView:
    """Raises 404."""
    found = next((job for job in world.jobs.values() if (job.namespace, job.name) == (namespace, name)), None)
    if found is None:
        raise HTTPException(404, f"no OfflineJob {namespace}/{name} that Rowen manages")
    return found


def hypothetical(request: HypotheticalJob, now: float, number: int = 0) -> JobView:
    """The job as if it had been created now."""
    return new_job(request.spec, f"hypothetical-{number}", request.namespace, request.name, now + number * 1e-6)

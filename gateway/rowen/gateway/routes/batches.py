"""/v1/batches."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from pydantic import ValidationError

from rowen.crds.faults import faults
from rowen.gateway.batch import Batch
from rowen.gateway.batches import Batches
from rowen.gateway.callers.bounds import Pace, bounded
from rowen.gateway.callers.errors import ApiError
from rowen.gateway.callers.guest import Door, Guest
from rowen.gateway.jobs import ENDPOINTS, BatchRequest
from rowen.gateway.metrics import Metrics
from rowen.gateway.routes.pages import page

_MOST_BYTES = 2**16


def batches_routes(door: Door, batches: Batches, pace: Pace, metrics: Metrics) -> APIRouter:
    """The routes. Bodies come at that `pace` at least."""
    router, entered = APIRouter(prefix="/batches"), Depends(door)

    @router.post("")
    async def create(request: Request, guest: Annotated[Guest, entered]) -> dict[str, Any]:
        asked = _read(await bounded(request, _MOST_BYTES, pace).body())
        made = await batches.create(guest, asked)
        metrics.batches.labels(guest.namespace).inc()
        return await batches.told(made)

    @router.get("")
    async def listed(
        guest: Annotated[Guest, entered],
        after: str | None = None,
        limit: Annotated[int, Query(ge=1, le=100)] = 20,
    ) -> dict[str, Any]:
        found = {batch.id: batch for batch in await batches.all(guest)}
        chosen = page([{"id": id_} for id_ in found], after, limit)
        told = await asyncio.gather(*(batches.told(found[item["id"]]) for item in chosen["data"]))
        return {**chosen, "data": list(told)}

    @router.get("/{batch_id}")
    async def retrieve(batch_id: str, guest: Annotated[Guest, entered]) -> dict[str, Any]:
        return await batches.told(await _found(batches, guest, batch_id))

    @router.post("/{batch_id}/cancel")
    async def cancel(batch_id: str, guest: Annotated[Guest, entered]) -> dict[str, Any]:
        found = await _found(batches, guest, batch_id)
        return await batches.told(await batches.cancel(guest, found))

    return router


async def _found(batches: Batches, guest: Guest, id_: str) -> Batch:
    """Raises `ApiError`, 404."""
    batch = await batches.find(guest, id_)
    if batch is None:
        raise ApiError(404, f"No such Batch object: {id_[:64]}", param="id", code="not_found")
    return batch


def _read(body: bytes) -> BatchRequest:
    """Raises `ApiError` that names the field."""
    try:
        asked = BatchRequest.model_validate_json(body, strict=True)
    except ValidationError as error:
        fault = faults(error)[0]
        raise ApiError(400, f"{fault.field or 'the body'}: {fault.words}", param=fault.field or None) from None
    if asked.endpoint not in ENDPOINTS:
        raise ApiError(
            400, f"endpoint must be one of {', '.join(ENDPOINTS)}", param="endpoint", code="invalid_endpoint"
        )
    return asked

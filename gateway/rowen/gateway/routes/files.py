"""/v1/files."""

import asyncio
import time
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse
from starlette.datastructures import FormData, UploadFile

from rowen.gateway.callers.bounds import Pace, Places, bounded
from rowen.gateway.callers.errors import ApiError
from rowen.gateway.callers.guest import Door, Guest
from rowen.gateway.files import File, Files
from rowen.gateway.ids import new_stem
from rowen.gateway.metrics import Metrics
from rowen.gateway.routes.pages import Order, page
from rowen.gateway.storage import Storage

_FORM_BYTES = 2**16
"""What a form has around its file."""


def files_routes(
    door: Door, storage: Storage, most_bytes: int, pace: Pace, places: Places, metrics: Metrics
) -> APIRouter:
    """The routes. Uploads have their `places`, and come at that `pace` at least."""
    router, entered = APIRouter(prefix="/files"), Depends(door)

    @router.post("")
    async def upload(request: Request, guest: Annotated[Guest, entered]) -> dict[str, Any]:
        await guest.need("create")
        async with (
            places.take(guest.namespace),
            bounded(request, most_bytes + _FORM_BYTES, pace).form(max_files=1, max_fields=8) as form,
        ):
            content = _content(form, most_bytes)
            files = Files(storage, guest.namespace)
            name = content.filename or ""
            file = await asyncio.to_thread(files.add, new_stem(time.time()), name, content.file)
        metrics.uploaded_bytes.labels(guest.namespace).inc(file.stored.bytes)
        return file.to_wire()

    @router.get("")
    async def listed(
        guest: Annotated[Guest, entered],
        purpose: str | None = None,
        after: str | None = None,
        limit: Annotated[int, Query(ge=1, le=10000)] = 10000,
        order: Order = "desc",
    ) -> dict[str, Any]:
        await guest.need("list")
        found = await asyncio.to_thread(Files(storage, guest.namespace).all)
        told = [file.to_wire() for file in found]
        return page([file for file in told if purpose in (None, file["purpose"])], after, limit, order)

    @router.get("/{file_id}")
    async def retrieve(file_id: str, guest: Annotated[Guest, entered]) -> dict[str, Any]:
        await guest.need("get")
        return (await _found(Files(storage, guest.namespace), file_id)).to_wire()

    @router.get("/{file_id}/content")
    async def content(file_id: str, guest: Annotated[Guest, entered]) -> StreamingResponse:
        await guest.need("get")
        files = Files(storage, guest.namespace)
        file = await _found(files, file_id)
        headers = {"Content-Disposition": f'attachment; filename="{file.name}"'}
        return StreamingResponse(files.blocks(file), media_type="application/octet-stream", headers=headers)

    @router.delete("/{file_id}")
    async def remove(file_id: str, guest: Annotated[Guest, entered]) -> dict[str, Any]:
        await guest.need("delete")
        files = Files(storage, guest.namespace)
        file = await _found(files, file_id)
        if file.is_partial:
            words = "this is what a batch has written that is not complete: its output and errors are one log, and stay"
            raise ApiError(409, words, param="id", code="invalid_status")
        await asyncio.to_thread(files.remove, file)
        return {"id": file.id, "object": "file", "deleted": True}

    return router


async def _found(files: Files, id_: str) -> File:
    """Raises `ApiError`, 404."""
    file = await asyncio.to_thread(files.find, id_)
    if file is None:
        raise ApiError(404, f"No such File object: {id_[:64]}", param="id", code="not_found")
    return file


def _content(form: FormData, most_bytes: int) -> UploadFile:
    """The file of an upload. Raises `ApiError`."""
    for name in form:
        if name not in ("file", "purpose"):
            raise ApiError(400, f"Unknown parameter: {name[:64]!r}", param=name[:64], code="unknown_parameter")
    if form.get("purpose") != "batch":
        raise ApiError(400, "purpose must be 'batch'", param="purpose", code="invalid_purpose")
    content = form.get("file")
    if not isinstance(content, UploadFile):
        raise ApiError(400, "a file is needed", param="file", code="missing_required_parameter")
    if (content.size or 0) > most_bytes:
        raise ApiError(413, f"the file is larger than {most_bytes} bytes", param="file", code="too_large")
    return content

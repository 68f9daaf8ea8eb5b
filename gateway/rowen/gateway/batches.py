"""Batches: made, looked up and cancelled as OfflineJobs, with the caller's token."""

import asyncio
import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import IO, Any

from rowen.crds.service.online_service import Engine, OnlineServiceSpec
from rowen.gateway.batch import ENDED, NO_RESULTS, Batch, Results, read_batch
from rowen.gateway.callers.bounds import Places
from rowen.gateway.callers.errors import ApiError
from rowen.gateway.callers.guest import MANAGER, Guest
from rowen.gateway.files import File, Files
from rowen.gateway.ids import ROLES, file_id, job_name, new_stem
from rowen.gateway.ids import read_batch as stem_of
from rowen.gateway.jobs import CANCELLED_ANNOTATION, LABEL, Addresses, BatchRecord, BatchRequest, batch_job
from rowen.gateway.rows import FaultsError, Rows, read_rows
from rowen.gateway.storage import Storage
from rowen.kube.client import MERGE
from rowen.kube.errors import RefusedError
from rowen.kube.kinds import OFFLINE_JOBS, ONLINE_SERVICES
from rowen.kube.objects import NOT_FOUND, create, get, list_all
from rowen.kube.timestamps import rfc3339

_READ_AT_ONCE, _WAIT_SECONDS = 1, 60.0
"""Files whose rows are read: it takes a processor for some seconds, and for the longest line half a GiB of memory."""
_REMEMBERED = 4096
_MOST_TOLD = 10
_OURS = replace(OFFLINE_JOBS, selector=f"{LABEL}=true")


class Batches:
    """The batches of all namespaces; nothing is kept here that is not in the cluster or the storage."""

    def __init__(self, storage: Storage, most_rows: int, job_secret_name: str | None) -> None:
        self._storage, self._most_rows, self._secret_name = storage, most_rows, job_secret_name
        self._places = Places(_READ_AT_ONCE, _READ_AT_ONCE, _WAIT_SECONDS)
        # By its end, too: who lets a cancelled one go on and cancels it again makes another one.
        self._remembered = lru_cache(_REMEMBERED)(lambda namespace, stem, _ended: self._results(namespace, stem))

    async def create(self, guest: Guest, asked: BatchRequest) -> Batch:
        """Makes the job; until it is there nothing is. Raises `ApiError`, `KubeError`, `StorageError`."""
        await guest.need("create")
        files = Files(self._storage, guest.namespace)
        file = await asyncio.to_thread(files.find, asked.input_file_id)
        if file is None or file.is_result:
            words = f"there is no uploaded file {asked.input_file_id!r} in namespace {guest.namespace}"
            raise ApiError(400, words, param="input_file_id", code="not_found")
        rows = await self._rows(files, guest.namespace, file, asked.endpoint)
        engine = await _engine(guest, rows.model)
        stem = new_stem(time.time())
        record = BatchRecord(**asked.model_dump(), model=rows.model, rows=rows.count)
        results = {role: files.result_address(stem, role) for role in ROLES}
        addresses = Addresses(input=files.address(file), **results, secret_name=self._secret_name)
        manifest = batch_job(guest.namespace, job_name(stem), record, engine, addresses)
        return _batch(await create(guest.kube, OFFLINE_JOBS, manifest, manager=MANAGER))

    async def all(self, guest: Guest) -> list[Batch]:
        """Newest first. Raises `KubeError`."""
        jobs = await list_all(guest.kube, _OURS, namespace=guest.namespace)
        found = [batch for raw in jobs if (batch := read_batch(raw))]
        return sorted(found, key=lambda batch: batch.stem, reverse=True)

    async def find(self, guest: Guest, id_: str) -> Batch | None:
        """The batch with that id. Raises `KubeError`."""
        stem = stem_of(id_)
        if stem is None:
            return None
        try:
            return read_batch(await get(guest.kube, OFFLINE_JOBS, guest.namespace, job_name(stem)))
        except RefusedError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    async def cancel(self, guest: Guest, batch: Batch) -> Batch:
        """Suspends the job for good: its pod ends, and what it has written stays. Raises `ApiError`, `KubeError`."""
        if batch.cancelling is not None:
            return batch
        if batch.status in ENDED:
            raise ApiError(409, f"Cannot cancel a batch with status '{batch.status}'.", code="invalid_status")
        annotations = {CANCELLED_ANNOTATION: rfc3339(time.time())}
        patch = {"metadata": {"annotations": annotations}, "spec": {"suspend": True}}
        path = OFFLINE_JOBS.path(batch.namespace, batch.name)
        query = {"fieldManager": MANAGER}
        return _batch(await guest.kube.call("PATCH", path, query=query, body=patch, content_type=MERGE))

    async def told(self, batch: Batch) -> dict[str, Any]:
        """As OpenAI's API has it. Raises `StorageError`."""
        if batch.status not in ENDED:
            return batch.to_wire(NO_RESULTS)
        if batch.settled(time.time()):
            # Its log may be thousands of objects: they are not read again for each list.
            return batch.to_wire(await asyncio.to_thread(self._remembered, batch.namespace, batch.stem, batch.ended))
        return batch.to_wire(await asyncio.to_thread(self._results, batch.namespace, batch.stem))

    def _results(self, namespace: str, stem: str) -> Results:
        files = Files(self._storage, namespace)
        found = {role: files.find(file_id(stem, role)) for role in ROLES}
        errors = found["errors"]
        failed = sum(block.count(b"\n") for block in files.blocks(errors)) if errors else 0
        return Results(frozenset(role for role, file in found.items() if file and file.stored.bytes), failed)

    async def _rows(self, files: Files, namespace: str, file: File, endpoint: str) -> Rows:
        """Raises `ApiError` with the faults, each with its line."""
        async with self._places.take(namespace):
            try:
                return await asyncio.to_thread(self._read, files, file, endpoint)
            except FaultsError as error:
                first, data = error.faults[0], [fault.to_wire() for fault in error.faults]
                raise ApiError(400, str(error), param="input_file_id", code=first.code, data=data) from None

    def _read(self, files: Files, file: File, endpoint: str) -> Rows:
        with tempfile.TemporaryFile() as copy:
            _write(files.blocks(file), copy)
            return read_rows(copy, endpoint, self._most_rows)


def _write(blocks: Iterable[bytes], target: IO[bytes]) -> None:
    for block in blocks:
        target.write(block)
    target.seek(0)


def _batch(raw: dict[str, Any]) -> Batch:
    batch = read_batch(raw)
    if batch is None:
        raise ApiError(500, f"the cluster has stored job {raw['metadata']['name']} otherwise than it was sent")
    return batch


async def _engine(guest: Guest, model: str) -> Engine:
    """The engine of the OnlineService that the rows name. Raises `ApiError` with those that there are, `KubeError`."""
    listed = await list_all(guest.kube, ONLINE_SERVICES, namespace=guest.namespace)
    services = {raw["metadata"]["name"]: raw["spec"] for raw in listed}
    engine = OnlineServiceSpec.from_wire(services[model]).engine if model in services else None
    if engine is not None:
        return engine
    names = sorted(name for name, spec in services.items() if "engine" in spec)
    there = ", ".join(names[:_MOST_TOLD]) + (f" and {len(names) - _MOST_TOLD} more" if names[_MOST_TOLD:] else "")
    fault = "is adopted, so that its model is not known" if model in services else "does not exist"
    raise ApiError(
        400,
        f"the rows' body.model names an OnlineService of namespace {guest.namespace}, and {model[:64]!r} {fault}; "
        f"there are: {there or 'none'}",
        param="body.model",
        code="model_not_found",
    )

"""The application: OpenAI's routes, once with the namespace in the path and once without."""

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from rowen.gateway.batches import Batches
from rowen.gateway.callers import errors
from rowen.gateway.callers.bounds import Pace, Places
from rowen.gateway.callers.errors import ApiError, busy
from rowen.gateway.callers.guest import Door
from rowen.gateway.metrics import Counted, Metrics
from rowen.gateway.routes.batches import batches_routes
from rowen.gateway.routes.files import files_routes
from rowen.gateway.settings import Settings
from rowen.gateway.storage import Storage, StorageError
from rowen.kube.client import Client

log = structlog.get_logger()


_PREFIXES = "/v1", "/namespaces/{namespace}/v1"
_WAIT_SECONDS = 30.0
"""How long an upload waits for its place."""


def create_app(settings: Settings, stranger: Client, storage: Storage, metrics: Metrics) -> FastAPI:
    """The application; `stranger` reaches the API server as nobody."""
    app = FastAPI(title="Rowen batch gateway", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(Counted, metrics=metrics)
    door, pace = Door(stranger), Pace(settings.silence_seconds, settings.least_bytes_per_second)
    places = Places(settings.most_uploads, settings.most_namespace_uploads, _WAIT_SECONDS)
    batches = Batches(storage, settings.most_rows, settings.job_secret_name)
    files = files_routes(door, storage, settings.most_file_bytes, pace, places, metrics)
    for prefix in _PREFIXES:
        app.include_router(files, prefix=prefix)
        app.include_router(batches_routes(door, batches, pace, metrics), prefix=prefix)
    errors.install(app)

    @app.exception_handler(StorageError)
    async def of_the_storage(_: Request, __: StorageError) -> JSONResponse:
        return busy("the storage of files does not answer").response()

    @app.exception_handler(RequestValidationError)
    async def of_the_query(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        name = str(first["loc"][-1])
        return ApiError(400, f"{name}: {first['msg']}", param=name).response()

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    return app

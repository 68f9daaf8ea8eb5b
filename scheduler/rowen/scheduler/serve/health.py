"""HTTP: health and metrics, on a port of their own.

They are for everybody who reaches the port, and the metrics name jobs of all namespaces, so the Service does not lead
here.
"""

from typing import Protocol

from fastapi import FastAPI, HTTPException, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest


class Living(Protocol):
    """Whose health it is."""

    def alive(self) -> bool:
        """Whether the loop turns."""


def create_health_app(living: Living, registry: CollectorRegistry) -> FastAPI:
    """The application for probes and Prometheus."""
    app = FastAPI(title="Rowen scheduler, health", docs_url=None, redoc_url=None, openapi_url=None)

    # Plain functions would run in a thread beside the loop that changes what they read.
    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        if not living.alive():
            raise HTTPException(503, "the scheduling loop is stuck")
        return {"status": "ok"}

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return app

"""HTTP: health, metrics, and what the devices did."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, HTTPException, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel

from rowen.node_agent.agent import Agent
from rowen.node_agent.devices.counts import Closing, Request
from rowen.node_agent.node import unix_offset


class TransitionView(BaseModel):
    """A close of the gate. Times: Unix, seconds; null: not yet."""

    closed: float
    acknowledged: float | None
    opened: float | None
    latency_seconds: float | None
    tenants: int
    share: float | None
    """Fraction of the device that it was opened for; None: all of it."""


class RequestView(BaseModel):
    """A finished online request. Times in seconds; `end`: Unix."""

    end: float
    ttft_seconds: float
    tpot_seconds: float | None
    preemptions: int
    tenant_present: bool


class Timeline(BaseModel):
    """What a device did."""

    transitions: list[TransitionView]
    requests: list[RequestView]


def create_app(agent: Agent) -> FastAPI:
    """The agent's HTTP application."""
    app = FastAPI(title="Rowen node agent", openapi_url=None)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Whether the agent's loops and the devices' native threads run."""
        if late := agent.stalled():
            raise HTTPException(503, f"stalled: {'; '.join(late)}")
        return {"status": "ok"}

    @app.get("/readyz")
    async def readyz() -> dict[str, str]:
        """Whether the kubelet knows the agent and the API server takes its reports."""
        if reason := agent.unready():
            raise HTTPException(503, reason)
        return {"status": "ok"}

    @app.get("/metrics")
    async def metrics() -> Response:
        """For Prometheus."""
        return Response(generate_latest(agent.node.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/v1/devices")
    async def devices() -> dict[str, Any]:
        """The node's devices, as they would be reported now, and in detail."""
        return agent.status().to_wire() | {"devices": [device.to_wire() for device in agent.details()]}

    @app.get("/v1/devices/{device}/timeline")
    async def timeline(device: str, since: float = 0.0) -> Timeline:
        """Closes and requests that ended at or after `since` (Unix, seconds), as far as the rings hold them."""
        served = agent.node.devices.get(device)
        if served is None:
            raise HTTPException(404, f"no device {device} on this node")
        return _timeline(served.gate.closings(0), served.gate.requests(0), since, unix_offset())

    return app


def _timeline(closings: Sequence[Closing], requests: Sequence[Request], since: float, offset: float) -> Timeline:
    def unix(moment: float | None) -> float | None:
        return None if moment is None else moment + offset

    return Timeline(
        transitions=[
            TransitionView(
                closed=closing.closed + offset,
                acknowledged=unix(closing.acknowledged),
                opened=unix(closing.opened),
                latency_seconds=None if closing.acknowledged is None else closing.acknowledged - closing.closed,
                tenants=closing.tenants,
                share=closing.share,
            )
            for closing in closings
            if closing.opened is None or closing.opened + offset >= since
        ],
        requests=[
            RequestView(
                end=request.end + offset,
                ttft_seconds=request.ttft,
                tpot_seconds=request.tpot,
                preemptions=request.preemptions,
                tenant_present=request.tenant_present,
            )
            for request in requests
            if request.end + offset >= since
        ],
    )

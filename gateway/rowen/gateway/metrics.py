"""What the gateway tells Prometheus."""

from prometheus_client import CollectorRegistry, Counter
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_NONE = "none"
_ERROR = 500
"""What a caller is told where no other answer has begun."""


class Metrics:
    """The gateway's metrics in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "rowen_gateway_requests_total",
            "Requests that have ended, by route and status; `none` for what is no route, or no method of it.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self.uploaded_bytes = Counter(
            "rowen_gateway_uploaded_bytes_total", "Bytes of files that were stored.", ["namespace"],
            registry=self.registry,
        )  # fmt: skip
        self.batches = Counter(
            "rowen_gateway_batches_total", "Batches that were made.", ["namespace"], registry=self.registry
        )


class Counted:
    """Counts an application's requests."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = _ERROR

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            # What a caller thinks up would else be a series of its own.
            route, method = scope.get("route"), scope["method"]
            path, methods = (route.path, route.methods) if route is not None else (_NONE, ())
            self._metrics.requests.labels(method if method in methods else _NONE, path, status).inc()

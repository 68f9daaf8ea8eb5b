"""A stand-in for Rowen's components: every metric they promise, on one HTTP port, moving a little at each scrape."""

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST


@dataclass(frozen=True)
class World:
    """How well things go."""

    ttft_beside_tenant: float = 0.010
    tpot_beside_tenant: float = 0.003
    request_preemptions: int = 1
    preemption_latency: float = 0.0008
    backstops: int = 0
    prediction_error: float = 0.03
    evictions: int = 0
    flaps: int = 0
    heartbeat_age: float = 4.0
    last_event_age: float = 2.0
    leading: int = 1
    guard_level: int = 0
    mode: str = "Preempt"
    ride_ended: int = 0


HEALTHY = World()
ILL = World(
    ttft_beside_tenant=0.4,
    tpot_beside_tenant=0.09,
    request_preemptions=3,
    preemption_latency=0.09,
    backstops=2,
    prediction_error=0.7,
    evictions=3,
    flaps=2,
    heartbeat_age=200.0,
    last_event_age=900.0,
    leading=0,
    guard_level=2,
    ride_ended=1,
)
SHARING = replace(ILL, mode="CoServe")
"""Jobs ride in the engine, and slow its requests as far as its objective allows."""
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class Metrics:
    """The metrics of agent, scheduler and operator; `advance` lets one scrape's worth of time pass."""

    def __init__(self, world: World) -> None:
        self.registry = CollectorRegistry()
        self._world = world
        self._agent()
        self._scheduler()
        self._operator()

    def advance(self) -> None:
        """One scrape's worth of events."""
        self._advance_agent()
        self._advance_scheduler()
        self._reconciles.labels("OfflineJob", "ok").inc(4)
        self._reconcile.labels("OfflineJob").observe(0.02)

    def _agent(self) -> None:
        device, service = ("node", "device"), ("node", "namespace", "service", "tenant")
        self._ttft = self._histogram("rowen_online_ttft_seconds", service)
        self._tpot = self._histogram("rowen_online_tpot_seconds", service)
        self._preemptions = self._counter("rowen_preemptions_total", device)
        self._latency = self._histogram("rowen_preemption_latency_seconds", device)
        self._harvested = self._counter("rowen_harvested_seconds_total", device)
        self._idle = self._counter("rowen_idle_seconds_total", device)
        self._backstops = self._counter("rowen_backstops_total", device)
        self._gauge("rowen_request_preemptions", device, self._world.request_preemptions)
        self._gauge("rowen_device_gate_open", device, 1)
        self._gauge("rowen_device_spatial_share", device, 0.4)
        self._shared = self._counter("rowen_device_spatial_open_seconds_total", device)
        self._gauge("rowen_decode_gap_seconds", device, 0.01)
        self._gauge("rowen_cooldown_seconds", device, 0.02)
        memory = Gauge("rowen_memory_bytes", "test", (*device, "owner"), registry=self.registry)
        for owner in ("fixed", "online_used", "online_ahead", "offline", "free"):
            memory.labels("node-1", "cpu1", owner).set(1 << 30)
        self._reclaims = self._counter("rowen_reclaims_total", device)
        self._reclaimed = self._counter("rowen_reclaimed_bytes_total", device)
        self._lost = self._counter("rowen_tokens_lost_total", device)
        self._gauge("rowen_heartbeat_age_seconds", ("node",), self._world.heartbeat_age)
        self._engine()

    def _engine(self) -> None:
        device = ("node", "device")
        self._steps = self._counter("rowen_steps_total", device)
        self._step_seconds = self._counter("rowen_step_seconds_total", device)
        self._riding_steps = self._counter("rowen_riding_steps_total", device)
        self._riding_seconds = self._counter("rowen_riding_seconds_total", device)
        self._added_seconds = self._counter("rowen_riding_added_seconds_total", device)
        self._step_tokens = self._counter("rowen_step_tokens_total", (*device, "kind"))
        self._ride_tokens = self._counter("rowen_ride_tokens_total", (*device, "kind"))
        self._gauge("rowen_ride_seats", device, 8)
        self._gauge("rowen_riders", device, 1)
        self._gauge("rowen_ride_ended", device, self._world.ride_ended)

    def _advance_agent(self) -> None:
        for tenant, factor in (("present", 1), ("absent", 0)):
            ttft = self._world.ttft_beside_tenant if factor else HEALTHY.ttft_beside_tenant
            tpot = self._world.tpot_beside_tenant if factor else HEALTHY.tpot_beside_tenant
            self._ttft.labels("node-1", "default", "chat", tenant).observe(ttft)
            self._tpot.labels("node-1", "default", "chat", tenant).observe(tpot)
        self._preemptions.labels("node-1", "cpu1").inc(2)
        self._latency.labels("node-1", "cpu1").observe(self._world.preemption_latency)
        self._harvested.labels("node-1", "cpu1").inc(0.1)
        self._idle.labels("node-1", "cpu1").inc(0.15)
        self._shared.labels("node-1", "cpu1").inc(0.05)
        self._reclaims.labels("node-1", "cpu1").inc()
        self._reclaimed.labels("node-1", "cpu1").inc(2 << 20)
        self._lost.labels("node-1", "cpu1").inc(64)
        self._backstops.labels("node-1", "cpu1").inc(self._world.backstops)
        self._advance_engine()

    def _advance_engine(self) -> None:
        self._steps.labels("node-1", "cpu1").inc(20)
        self._step_seconds.labels("node-1", "cpu1").inc(0.5)
        self._riding_steps.labels("node-1", "cpu1").inc(12)
        self._riding_seconds.labels("node-1", "cpu1").inc(0.2)
        self._added_seconds.labels("node-1", "cpu1").inc(0.1)
        for kind, tokens in (("decode", 60), ("prefill", 300)):
            self._step_tokens.labels("node-1", "cpu1", kind).inc(tokens)
        for kind, tokens in (("forward", 200), ("solo", 100), ("backward", 300), ("rows", 50)):
            self._ride_tokens.labels("node-1", "cpu1", kind).inc(tokens)

    def _scheduler(self) -> None:
        self._error = self._histogram("rowen_prediction_error_ratio", (), (0.01, 0.05, 0.1, 0.25, 0.5, 1.0))
        self._decision = self._histogram("rowen_decision_seconds", ())
        self._evictions = self._counter("rowen_evictions_total", ("reason",))
        self._placements = self._counter("rowen_placements_total", ())
        self._flaps = self._counter("rowen_flaps_total", ())
        self._gauge("rowen_prediction_error_bound", ("workload",), 0.1)
        self._gauge("rowen_queue_length", ("state",), 2)
        self._gauge("rowen_predicted_fraction", ("namespace", "job"), 0.5)
        self._gauge("rowen_measured_fraction", ("namespace", "job"), 0.48)
        self._gauge("rowen_node_heartbeat_age_seconds", ("node",), self._world.heartbeat_age)
        self._gauge("rowen_nodes_waited_for", (), 0)
        self._gauge("rowen_node_pattern_drift_seconds", ("node",), 0)
        self._gauge("rowen_leading", (), self._world.leading)  # the operator has it, too

    def _advance_scheduler(self) -> None:
        self._error.observe(self._world.prediction_error)
        self._decision.observe(0.002)
        self._evictions.labels("SLAViolated").inc(self._world.evictions)
        self._placements.inc()
        self._flaps.inc(self._world.flaps)

    def _operator(self) -> None:
        self._reconciles = self._counter("rowen_reconciles_total", ("kind", "result"))
        self._reconcile = self._histogram("rowen_reconcile_seconds", ("kind",))
        self._gauge("rowen_last_event_age_seconds", (), self._world.last_event_age)
        gauge = Gauge("rowen_objects", "test", ("kind", "state"), registry=self.registry)
        gauge.labels("OfflineJob", "Running").set(1)
        placed = Gauge("rowen_placed_jobs", "test", ("mode", "state"), registry=self.registry)
        placed.labels("Spatial", "Running").set(1)
        self._gauge("rowen_harvest_guard_level", ("namespace", "service"), self._world.guard_level)
        service = Gauge("rowen_service_info", "test", ("namespace", "service", "mode"), registry=self.registry)
        service.labels("default", "chat", self._world.mode).set(1)

    def _counter(self, name: str, labels: tuple[str, ...]) -> Counter:
        return Counter(name, "test", labels, registry=self.registry)

    def _histogram(self, name: str, labels: tuple[str, ...], buckets: tuple[float, ...] = _SECONDS) -> Histogram:
        return Histogram(name, "test", labels, buckets=buckets, registry=self.registry)

    def _gauge(self, name: str, labels: tuple[str, ...], value: float) -> None:
        gauge = Gauge(name, "test", labels, registry=self.registry)
        examples = {"node": "node-1", "device": "cpu1", "namespace": "default", "job": "tune", "service": "chat"}
        examples |= {"state": "waiting", "workload": "FineTune/tiny"}
        (gauge.labels(*(examples[label] for label in labels)) if labels else gauge).set(value)


@contextmanager
def serve(world: World) -> Iterator[int]:
    """Serves the metrics of a world; yields the port."""
    metrics = Metrics(world)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            metrics.advance()
            body = generate_latest(metrics.registry)
            # Prometheus may have given up on this scrape.
            with contextlib.suppress(ConnectionError):
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE_LATEST)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

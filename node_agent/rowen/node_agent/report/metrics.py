"""Prometheus metrics of a node."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from rowen.crds.harvest.node_harvest import PoolOwners
from rowen.crds.ride.messages import StepSums
from rowen.node_agent.devices.counts import Closing, DeviceCounts, Request
from rowen.node_agent.kubelet.pods import PodView
from rowen.node_agent.memory.pool_status import PoolStatus
from rowen.node_agent.ride.view import EngineView

_SECONDS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
_TTFT = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_TPOT = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class Metrics:
    """All metrics, with the node as a label."""

    def __init__(self, node: str) -> None:
        self.registry = CollectorRegistry()
        self._node = node
        device, service = ("node", "device"), ("node", "namespace", "service", "tenant")
        self._ttft = self._histogram("rowen_online_ttft_seconds", "Time to first token", service, _TTFT)
        self._tpot = self._histogram("rowen_online_tpot_seconds", "Time per output token", service, _TPOT)
        self._latency = self._histogram(
            "rowen_preemption_latency_seconds", "From the online side turning busy to the last ack", device, _SECONDS
        )
        self._preemptions = self._counter("rowen_preemptions_total", "Requests that stopped offline work")
        self._harvested = self._counter("rowen_harvested_seconds_total", "Time in which offline work ran")
        self._idle = self._counter("rowen_idle_seconds_total", "Time in which offline work might run")
        self._backstops = self._counter("rowen_backstops_total", "Pods that the kernel had to stop")
        self._request_preemptions = self._gauge("rowen_request_preemptions", "Most preemptions met by one request")
        self._open = self._gauge("rowen_device_gate_open", "1 while offline work may run")
        self._share = self._gauge("rowen_device_spatial_share", "Fraction of it that is open beside requests now")
        self._shared = self._counter("rowen_device_spatial_open_seconds_total", "Time in which it was open beside them")
        self._gap = self._gauge("rowen_decode_gap_seconds", "Decode gap that the cooldown is made from")
        self._cooldown = self._gauge("rowen_cooldown_seconds", "Idle time before offline work resumes")
        self._memory = Gauge(
            "rowen_memory_bytes", "Whose a device's memory is", ("node", "device", "owner"), registry=self.registry
        )
        self._reclaims = self._counter("rowen_reclaims_total", "Times that memory was taken from offline work")
        self._reclaimed = self._counter("rowen_reclaimed_bytes_total", "Memory that was taken from offline work")
        self._lost = self._counter("rowen_tokens_lost_total", "Tokens that offline work has to compute again for it")
        self._age = Gauge(
            "rowen_heartbeat_age_seconds",
            "Age of the last accepted heartbeat or report",
            ("node",),
            registry=self.registry,
        )
        self._steps = self._counter("rowen_steps_total", "Steps of the online engine")
        self._step_seconds = self._counter("rowen_step_seconds_total", "Time in its steps")
        self._riding_steps = self._counter("rowen_riding_steps_total", "Steps in which something rode")
        self._riding_seconds = self._counter(
            "rowen_riding_seconds_total", "Time that the engine worked for riders between steps and while idle"
        )
        self._added_seconds = self._counter(
            "rowen_riding_added_seconds_total", "Of the time in steps, by which riders made them longer, as predicted"
        )
        self._step_tokens = self._by_kind("rowen_step_tokens_total", "Tokens of requests in the engine's steps")
        self._ride_tokens = self._by_kind("rowen_ride_tokens_total", "Tokens of riders that the engine worked through")
        self._seats = self._gauge("rowen_ride_seats", "Jobs that the engine takes in at once")
        self._riders = self._gauge("rowen_riders", "Jobs that are joined with the engine")
        self._ended = self._gauge("rowen_ride_ended", "1 where nothing rides in the engine any more")
        self._before: dict[str, DeviceCounts] = {}
        self._pool_before: dict[str, PoolStatus] = {}
        self._lost_before: dict[str, int] = {}

    def _histogram(self, name: str, text: str, labels: tuple[str, ...], buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self.registry)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(name, text, ("node", "device"), registry=self.registry)

    def _by_kind(self, name: str, text: str) -> Counter:
        return Counter(name, text, ("node", "device", "kind"), registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, ("node", "device"), registry=self.registry)

    def heartbeat_age(self, seconds: float) -> None:
        """Age of the last accepted heartbeat or report, in seconds."""
        self._age.labels(self._node).set(seconds)

    def device(self, device: str, counts: DeviceCounts, per_request_max: int) -> None:
        """State and counters; counters begin with this agent."""
        labels = (self._node, device)
        before = self._before.get(device, counts)
        self._before[device] = counts
        for counter, now, then in (
            (self._preemptions, counts.preemptions, before.preemptions),
            (self._backstops, counts.backstops, before.backstops),
            (self._harvested, counts.harvested_seconds, before.harvested_seconds),
            (self._idle, counts.idle_seconds, before.idle_seconds),
            (self._shared, counts.shared_seconds, before.shared_seconds),
        ):
            counter.labels(*labels).inc(max(0.0, now - then))
        self._request_preemptions.labels(*labels).set(per_request_max)
        self._open.labels(*labels).set(counts.gate_open)
        self._share.labels(*labels).set(counts.share or 0.0)
        self._gap.labels(*labels).set(counts.decode_gap)
        self._cooldown.labels(*labels).set(counts.cooldown)

    def steps(self, device: str, added: StepSums) -> None:
        """What the engine's steps were made of since the last call."""
        labels = (self._node, device)
        self._steps.labels(*labels).inc(added.steps)
        self._step_seconds.labels(*labels).inc(added.seconds)
        self._riding_steps.labels(*labels).inc(added.riding_steps)
        self._riding_seconds.labels(*labels).inc(added.riding_seconds)
        self._added_seconds.labels(*labels).inc(added.added_seconds)
        for kind, tokens in (("decode", added.decode_rows), ("prefill", added.prefill_tokens)):
            self._step_tokens.labels(*labels, kind).inc(tokens)
        for kind, tokens in (
            ("forward", added.forward_tokens),
            ("solo", added.solo_tokens),
            ("backward", added.backward_tokens),
            ("rows", added.row_tokens),
        ):
            self._ride_tokens.labels(*labels, kind).inc(tokens)

    def riding(self, device: str, engine: EngineView | None, riders: int) -> None:
        """How many ride in a device's engine now; None: it takes no riders in."""
        labels = (self._node, device)
        self._seats.labels(*labels).set(engine.seats if engine else 0)
        self._riders.labels(*labels).set(riders)
        self._ended.labels(*labels).set(engine is not None and engine.ended is not None)

    def memory(self, device: str, owned: PoolOwners, pool: PoolStatus, tokens_lost: int) -> None:
        """Whose a device's memory is, and what was taken, and lost by it; counters begin with this agent."""
        labels = (self._node, device)
        for owner, value in owned.model_dump().items():
            self._memory.labels(*labels, owner.removesuffix("_bytes")).set(value)
        before = self._pool_before.get(device)
        self._pool_before[device] = pool
        self._reclaims.labels(*labels).inc(pool.reclaims - (before.reclaims if before else 0))
        taken = pool.handles_reclaimed - (before.handles_reclaimed if before else 0)
        self._reclaimed.labels(*labels).inc(taken * pool.handle_bytes)
        self._lost.labels(*labels).inc(tokens_lost - self._lost_before.get(device, 0))
        self._lost_before[device] = tokens_lost

    def requests(self, pod: PodView | None, requests: Iterable[Request]) -> None:
        """Requests that have ended since the last call."""
        namespace, service = (pod.namespace, pod.service or "") if pod else ("", "")
        for request in requests:
            labels = (self._node, namespace, service, "present" if request.tenant_present else "absent")
            self._ttft.labels(*labels).observe(request.ttft)
            if request.tpot is not None:
                self._tpot.labels(*labels).observe(request.tpot)

    def closings(self, device: str, closings: Iterable[Closing]) -> None:
        """Closes that have ended since the last call."""
        for closing in closings:
            if closing.acknowledged is not None and closing.tenants and closing.for_request:
                self._latency.labels(self._node, device).observe(closing.acknowledged - closing.closed)

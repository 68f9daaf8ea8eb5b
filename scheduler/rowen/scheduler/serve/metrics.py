"""What the scheduler tells Prometheus."""

from collections import Counter as Tally
from collections.abc import Container, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from rowen.scheduler.decision import Action, Decision, Outcome
from rowen.scheduler.history import History
from rowen.scheduler.model.rider import ride_class
from rowen.scheduler.monitor.backoff import ahead
from rowen.scheduler.monitor.scoring import ErrorSample
from rowen.scheduler.snapshot import JobKey, Snapshot

_FLAP_SECONDS = 1800.0


class Metrics:
    """The scheduler's metrics in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self.leading = Gauge("rowen_leading", "1 while it works, 0 while it stands by.", registry=registry)
        self._queue = Gauge("rowen_queue_length", "Jobs without an assignment.", ["state"], registry=registry)
        self._predicted = Gauge(
            "rowen_predicted_fraction", "Predicted throughput over solo.", ["namespace", "job"], registry=registry
        )
        self._measured = Gauge(
            "rowen_measured_fraction", "Measured throughput over solo.", ["namespace", "job"], registry=registry
        )
        self._error = Histogram(
            "rowen_prediction_error_ratio",
            "Difference of predicted and measured throughput over the predicted one.",
            buckets=(0.01, 0.02, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0),
            registry=registry,
        )
        self._margin = Gauge(
            "rowen_prediction_error_bound",
            "Relative shortfall of the prediction that promises allow for, per workload class that has a job.",
            ["workload"],
            registry=registry,
        )
        self.decision_seconds = Histogram(
            "rowen_decision_seconds",
            "Time of one pass without its writes.",
            buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0),
            registry=registry,
        )
        self._evictions = Counter("rowen_evictions_total", "Assignments withdrawn.", ["reason"], registry=registry)
        self._placements = Counter("rowen_placements_total", "Assignments made.", registry=registry)
        self._flaps = Counter(
            "rowen_flaps_total",
            f"Assignments withdrawn within {_FLAP_SECONDS:.0f} s of being made, Suspended apart.",
            registry=registry,
        )
        self._age = Gauge(
            "rowen_node_heartbeat_age_seconds", "Time since the node was heard.", ["node"], registry=registry
        )
        self._waited_for = Gauge(
            "rowen_nodes_waited_for",
            "Overdue nodes that are not taken for lost yet, since most nodes are silent at once.",
            registry=registry,
        )

        self._drift = Gauge(
            "rowen_node_pattern_drift_seconds",
            "Promised throughput that the node's reports fall short of, beyond the margin: of its job that lacks most.",
            ["node"],
            registry=registry,
        )

    def observe(self, snapshot: Snapshot, history: History, decision: Decision, now: float) -> None:
        """Sets the gauges after a pass."""
        self._gauge_nodes(snapshot, now)
        self._gauge_drifts(history)
        self._waited_for.set(len(decision.waited_for))
        self._predicted.clear()
        self._measured.clear()
        for outcome in decision.outcomes:
            self._gauge_job(outcome, history)
        self._margin.clear()
        classes = {job.workload for job in snapshot.jobs.values()}
        for workload in (classes | set(map(ride_class, classes))) & history.errors.keys():
            self._margin.labels(workload).set(history.error(workload).bound)
        backed_off = ahead(history.backoffs, now)
        tally = Tally(_state(outcome, backed_off) for outcome in decision.outcomes)
        for state in ("waiting", "backoff", "suspended"):
            self._queue.labels(state).set(tally[state])

    def _gauge_nodes(self, snapshot: Snapshot, now: float) -> None:
        self._age.clear()
        for node in snapshot.nodes.values():
            if node.heard is not None:
                self._age.labels(node.name).set(node.age(now))

    def _gauge_drifts(self, history: History) -> None:
        worst: dict[str, float] = {}
        for track in history.tracks.values():
            worst[track.node] = max(track.drift, worst.get(track.node, 0.0))
        self._drift.clear()
        for node, drift in worst.items():
            self._drift.labels(node).set(drift)

    def _gauge_job(self, outcome: Outcome, history: History) -> None:
        if outcome.placement is None:
            return
        job = outcome.job
        if outcome.fraction is not None:
            self._predicted.labels(job.namespace, job.name).set(outcome.fraction)
        track = history.tracks.get(job.uid)
        if track is not None and track.fraction is not None:
            self._measured.labels(job.namespace, job.name).set(track.fraction)

    def errors(self, samples: Iterable[ErrorSample]) -> None:
        """Counts prediction errors."""
        for sample in samples:
            self._error.observe(abs(sample.predicted - sample.measured) / sample.predicted)

    def written(self, outcome: Outcome, now: float) -> None:
        """Counts a placement or a withdrawal that has reached the API server."""
        if outcome.action is Action.PLACE:
            self._placements.inc()
        elif outcome.loss is not None:
            self._evictions.labels(outcome.loss.reason.value).inc()
            held = outcome.job.placement
            if held is not None and outcome.loss.withdrawn and now - held.time < _FLAP_SECONDS:
                self._flaps.inc()


def _state(outcome: Outcome, backed_off: Container[JobKey]) -> str:
    if outcome.action is Action.HOLD:
        return "suspended" if outcome.job.suspended and not outcome.job.finished else "out"
    if outcome.placement is not None:
        return "placed"
    return "backoff" if outcome.job.uid in backed_off else "waiting"

"""What Prometheus is told."""

from dataclasses import replace

from prometheus_client import generate_latest
from scheduler.builders import NOW, job, node, not_started, outcome, placed, run, world

from rowen.scheduler.history import History, Track
from rowen.scheduler.model.profile import PredictionError
from rowen.scheduler.monitor.backoff import Backoff
from rowen.scheduler.monitor.scoring import ErrorSample
from rowen.scheduler.serve.metrics import Metrics
from rowen.scheduler.snapshot import JobView, NodeView


def text(metrics: Metrics) -> str:
    return generate_latest(metrics.registry).decode()


def after(*parts: NodeView | JobView, history: History | None = None) -> str:
    metrics = Metrics()
    metrics.observe(world(*parts), history or History(), run(*parts, history=history), NOW)
    return text(metrics)


def test_gauges_of_a_pass() -> None:
    history = History(
        backoffs={("uid-b", "n"): Backoff(1, NOW + 9, "SLAViolated")}, errors={"class": PredictionError(0.0, 0.0)}
    )
    jobs = [placed(job("a"), "n"), job("b"), job("c", sla=1.0), job("d", suspended=True), job("e", finished=True)]
    told = after(node("n", reported=NOW - 3), *jobs, history=history)
    assert 'rowen_queue_length{state="waiting"} 1.0' in told
    assert 'rowen_queue_length{state="backoff"} 1.0' in told
    assert 'rowen_queue_length{state="suspended"} 1.0' in told
    assert 'rowen_predicted_fraction{job="a",namespace="ns"} 0.8' in told
    assert 'rowen_node_heartbeat_age_seconds{node="n"} 3.0' in told
    assert 'rowen_prediction_error_bound{workload="class"} 0.02' in told


def test_series_of_jobs_that_are_gone_end() -> None:
    metrics = Metrics()
    view = placed(job("a"), "n")
    for parts in ([node("n"), view], [node("n")]):
        metrics.observe(world(*parts), History(), run(*parts), NOW)
    assert 'job="a"' not in text(metrics)


def test_nodes_that_are_waited_for_are_counted() -> None:
    jobs = [placed(job(name), name, renewed=NOW - 40) for name in ("a", "b")]
    told = after(*jobs, node("a", reported=NOW - 40), node("b", reported=NOW - 40))
    assert "rowen_nodes_waited_for 2.0" in told
    assert "rowen_nodes_waited_for 0.0" in after(*jobs, node("a"), node("b"))


def test_of_each_node_with_jobs_the_largest_drift_is_told() -> None:
    tracks = {
        uid: Track("a", uid, "class", ("cpu",), NOW, NOW, 0, 0.0, node=name, drift=drift)
        for uid, name, drift in (("a", "n", 30.0), ("b", "n", 75.5), ("c", "n", 0.0), ("d", "m", 0.0))
    }
    metrics, parts = Metrics(), (node("n"), node("m"), node("empty"))
    metrics.observe(world(*parts), History(tracks=tracks), run(*parts), NOW)
    told = text(metrics)
    assert 'rowen_node_pattern_drift_seconds{node="n"} 75.5' in told
    assert 'rowen_node_pattern_drift_seconds{node="m"} 0.0' in told
    assert told.count("rowen_node_pattern_drift_seconds{") == 2
    metrics.observe(world(*parts), History(), run(*parts), NOW)
    assert "rowen_node_pattern_drift_seconds{" not in text(metrics)


def test_margins_are_told_of_classes_that_have_a_job() -> None:
    errors = dict.fromkeys(("class", "other"), PredictionError(0.0, 0.0))
    told = after(job("a"), history=History(errors=errors))
    assert 'rowen_prediction_error_bound{workload="class"}' in told
    assert 'workload="other"' not in told


def test_placements_evictions_and_flaps_are_counted() -> None:
    metrics = Metrics()
    metrics.written(outcome(run(node("n"), job("a")), "a"), NOW)
    lost = placed(job("a"), "n", at=NOW - 60, renewed=NOW - 60)
    metrics.written(outcome(run(lost), "a"), NOW)
    old = placed(job("b"), "n", at=NOW - 9999, renewed=NOW - 60)
    metrics.written(outcome(run(old), "b"), NOW)
    started_never = not_started(placed(job("d"), "n", at=NOW - 60))
    metrics.written(outcome(run(node("n"), started_never), "d"), NOW)
    held = replace(placed(job("c"), "n"), suspended=True)
    metrics.written(outcome(run(node("n"), held), "c"), NOW)
    told = text(metrics)
    assert "rowen_placements_total 1.0" in told
    assert 'rowen_evictions_total{reason="NodeLost"} 2.0' in told
    assert 'rowen_evictions_total{reason="Suspended"} 1.0' in told
    assert 'rowen_evictions_total{reason="NotStarted"} 1.0' in told
    assert "rowen_flaps_total 2.0" in told


def test_errors_are_relative() -> None:
    metrics = Metrics()
    metrics.errors([ErrorSample("class", 0.5, 0.45)])
    told = text(metrics)
    assert 'rowen_prediction_error_ratio_bucket{le="0.05"} 0.0' in told
    assert 'rowen_prediction_error_ratio_bucket{le="0.15"} 1.0' in told

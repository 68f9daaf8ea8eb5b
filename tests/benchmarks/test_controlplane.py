"""The benchmark of the control plane: its parts by value, and the smallest run on a real API server."""

import os
from pathlib import Path
from statistics import fmean

import controlplane
import pytest
from apiserver import BINARIES
from plane import agents, bench, cluster, kubelets, samples, sizes, usage
from plane.follower import Times, followed
from plane.jobs import job
from plane.meter import Reading
from plane.names import DEVICES, NAMESPACE, engine_name, node_name
from reporting.bars import judged

from rowen.crds.harvest.node_harvest import NodeHarvestStatus
from rowen.crds.job.offline_job import OfflineJobSpec
from rowen.crds.names import HEARTBEAT_SECONDS
from rowen.node_agent.kubelet.pods import PodView
from rowen.node_agent.report.change import Written, due
from rowen.node_agent.report.status import node_status

METRICS = """\
# HELP apiserver_request_total Requests.
apiserver_request_total{code="200",resource="pods",subresource="",verb="LIST"} 7
apiserver_request_total{code="404",resource="pods",subresource="",verb="LIST"} 1
apiserver_request_total{code="200",resource="offlinejobs",subresource="status",verb="PATCH"} 1.2e+02
apiserver_request_total{code="200",resource="",subresource="",verb="GET"} 5
apiserver_request_total_more{resource="pods",verb="LIST"} 100
apiserver_flowcontrol_dispatched_requests_total{flow_schema="bench-operator",priority_level="workload-low"} 12
apiserver_flowcontrol_dispatched_requests_total{flow_schema="exempt",priority_level="exempt"} 90
rowen_reconciles_total{kind="OfflineJob",result="ok"} 6.0
rowen_reconciles_total{kind="OnlineService",result="error"} 2.0
rowen_decision_seconds_count 0.0
"""


def test_requests_are_counted_by_what_they_ask_for() -> None:
    assert samples.requests_by_kind(METRICS) == {
        "LIST pods": 7,
        "LIST pods 404": 1,
        "PATCH offlinejobs/status": 120,
    }


def test_requests_are_counted_by_who_asks() -> None:
    schemas = {"operator": "bench-operator", "scheduler": "bench-scheduler"}
    assert samples.requests_by_part(METRICS, schemas) == {"operator": 12, "scheduler": 0}


@pytest.mark.parametrize(("objects", "done"), [(6, True), (7, False)])
def test_a_restart_is_over_when_the_operator_got_through_with_all_objects(objects: int, done: bool) -> None:
    """Two of the eight looks went wrong."""
    assert controlplane.components.reconciled(METRICS, objects) is done


def test_a_scheduler_that_has_not_decided_is_not_back() -> None:
    assert not controlplane.components.decided(METRICS)
    assert controlplane.components.decided(METRICS.replace("count 0.0", "count 1.0"))


def test_what_a_process_has_used() -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    stat = f"7 (a (b) c) S 1 7 7 0 -1 4194560 100 0 0 0 {3 * ticks} {ticks} 0 0 20 0 1 0 5 6 7"
    status = "Name:\tx\nVmPeak:\t  900 kB\nVmHWM:\t  20 kB\nVmRSS:\t  10 kB\n"
    assert usage.parsed(stat, status) == usage.Usage(4.0, 10 * 1024, 20 * 1024)


def test_a_phase_is_the_difference_of_two_readings() -> None:
    first = Reading(10.0, {"operator": 1.0}, samples.Counts(operator=5), samples.Counts({"GET pods": 2}))
    last = Reading(40.0, {"operator": 4.0}, samples.Counts(operator=25), samples.Counts({"GET pods": 2}))
    found = last.since(first)
    assert (found.seconds, found.cpu_seconds, dict(found.by_kind)) == (30.0, {"operator": 3.0}, {})
    assert found.per_minute("operator") == 40.0


def test_a_job_that_was_not_placed_has_no_wait() -> None:
    assert Times({"a": 1.0, "b": 2.0}, {"a": 1.5}).waits(["a", "b"]) == [0.5]


def test_the_same_seed_makes_the_same_jobs() -> None:
    jobs = [job(3, number, held=number < 10) for number in range(200)]
    assert jobs == [job(3, number, held=number < 10) for number in range(200)]
    assert jobs != [job(4, number, held=number < 10) for number in range(200)]
    assert {found["metadata"]["name"].partition("-")[0] for found in jobs[:10]} == {"hold"}
    specs = [OfflineJobSpec.from_wire(found["spec"]) for found in jobs]
    assert {spec.sla.throughput_fraction if spec.sla else None for spec in specs} == {None, 0.1, 0.2}
    assert all(2.0 <= kubelets.run_seconds(3, found["metadata"]["name"]) <= 6.0 for found in jobs)


def test_a_job_is_followed_from_its_status() -> None:
    raw = job(0, 1, held=False)
    found = followed(raw)
    assert (found.name, found.assignment, found.finished) == ("job-00001", None, False)


def test_an_agent_reports_the_pods_of_its_devices() -> None:
    tally = agents.Tally()
    agent = agents.Agent(None, 3, agents.random.Random(0), tally)  # type: ignore[arg-type]
    pods = [
        PodView(NAMESPACE, "j-1", job="j", devices=("gpu2",)),
        PodView(NAMESPACE, "k-1", job="k", devices=("gpu2",), phase="Pending"),
    ]
    now = 1000.0
    status = node_status(agent.snapshots(pods, now), now=now, window=60.0, unix_offset=0.0)
    assert [device.id for device in status.devices] == [f"gpu{index}" for index in range(DEVICES)]
    tenants = {device.id: [tenant.pod.name for tenant in device.tenants] for device in status.devices}
    assert tenants == {f"gpu{index}": ["j-1"] if index == 2 else [] for index in range(DEVICES)}
    device = status.devices[0]
    assert device.harvestable
    assert device.online is not None
    assert device.online.pod.name == engine_name(node_name(3))
    cells = status.busy_cells(device)
    assert cells is not None
    # As often as its idle fraction says, but for the two ends of the window.
    assert cells.fraction == pytest.approx(1.0 - device.idle_fraction, abs=0.1)


def test_an_agent_reports_what_its_pools_lend() -> None:
    """In a window of twelve bursts the engine has 4, 5, … 15 GiB, 9.5 in the mean, and half of it between them."""
    agent = agents.Agent(None, 3, agents.random.Random(0), agents.Tally())  # type: ignore[arg-type]
    status = node_status(agent.snapshots([], 1000.0), now=1000.0, window=60.0, unix_offset=0.0)
    device, gib = status.devices[0], 2**30
    left = device.available_bytes
    used = 9.5 * (1.0 + (1.0 - device.idle_fraction)) / 2
    assert fmean(left) / gib == pytest.approx(30.0 - used, abs=0.5)
    assert left[0] / gib == pytest.approx(15.0, abs=1.0)
    assert left[-1] / gib == pytest.approx(28.0, abs=0.001)


def test_an_agent_that_nothing_happens_to_writes_once_a_minute() -> None:
    agent = agents.Agent(None, 3, agents.random.Random(0), agents.Tally())  # type: ignore[arg-type]

    def status(now: float) -> NodeHarvestStatus:
        return node_status(agent.snapshots([], now), now=now, window=60.0, unix_offset=0.0)

    written = Written(1000.0, status(1000.0))
    assert not any(due(written, status(1000.0 + second), 1000.0 + second, 60.0) for second in range(5, 60, 5))
    assert due(written, status(1060.0), 1060.0, 60.0)


def test_a_pod_is_bound_where_the_operator_pins_it() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-0004"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    meta = {"name": "j-1", "uid": "u", "labels": {"rowen.dev/job": "j"}}
    raw = {"metadata": meta, "spec": {"affinity": affinity, "containers": [{"name": "main"}]}}
    pod = kubelets.job_pod(raw)
    assert (pod.node, pod.bound, pod.deleting) == ("node-0004", False, False)
    bound = kubelets.job_pod(raw | {"spec": {"nodeName": "node-0005", "containers": [{"name": "main"}]}})
    assert (bound.node, bound.bound) == ("node-0005", True)


def test_each_part_is_counted_apart() -> None:
    schemas = list(cluster.flow_schemas())
    assert [schema["metadata"]["name"] for schema in schemas] == [
        "bench-operator", "bench-scheduler", "bench-agents", "bench-kubelets"
    ]  # fmt: skip


@pytest.mark.parametrize(("jobs", "held"), [(10_000, 1000), (200, 100), (7, 3)])
def test_a_thousand_jobs_are_held_or_half(jobs: int, held: int) -> None:
    found = sizes.sizes(None, jobs, quick=True)
    assert found.held == held
    assert found.steady <= held


def test_a_run_without_jobs_is_refused() -> None:
    with pytest.raises(ValueError, match="two jobs"):
        sizes.sizes(1, 1, quick=True)


def test_bars() -> None:
    values = {"jobs_per_second": 39.9, "restart_reconcile_s": None, "operator_rss_mb": 300.0, "scheduler_rss_mb": 300.1}
    figures = {name: {"value": values.get(name, 0.0)} for name in controlplane.BARS}
    kept = {name: bar["kept"] for name, bar in judged(figures, controlplane.BARS).items()}
    assert kept == {
        "jobs_per_second": False,
        "restart_reconcile_s": None,
        "operator_rss_mb": True,
        "scheduler_rss_mb": False,
        "outage_revoked": True,
        "outage_pods_lost": True,
    }


def bench_found(placed: int, finished: int, held: int) -> controlplane.Found:
    """Of 4 jobs in the burst and 3 held ones: so many came so far, within 2 s."""
    reading = Reading(10.0, {"operator": 1.0}, samples.Counts(operator=6, scheduler=2), samples.Counts())
    crowd = {"failures": 0}
    burst = bench.Burst(reading, 0.1, [0.5] * placed, 2.0, 1.0, finished, crowd)
    outage = bench.Outage(1.0, 2.0, 3.0, held, 0, held, 0)
    rss = {"operator": 100, "scheduler": 200}
    restarts = {"operator": 4.0, "scheduler": 5.0}
    return controlplane.Found(reading, 0.1, [0.2] * held, held, restarts, held + 1, outage, burst, rss, rss)


def values_of(some: controlplane.Found) -> tuple[dict[str, float | None], dict[str, bool | None]]:
    size = sizes.Sizes(2, 7, steady=3, idle_seconds=1.0, outage_seconds=1.0)
    made = controlplane.result(some, size, 0)
    kept = {name: bar["kept"] for name, bar in made["bars"].items()}
    return {name: row["value"] for name, row in made["figures"].items()}, kept


def test_what_all_came_through_has_figures() -> None:
    values, kept = values_of(bench_found(4, 4, 3))
    assert None not in values.values()
    assert (values["jobs_per_second"], values["api_calls_per_job"], values["cpu_ms_per_job_operator"]) == (2, 2, 250)
    assert (values["restart_reconcile_s"], values["restart_resources"], values["decision_s_p99"]) == (5, 4, 0.2)
    assert kept["outage_revoked"] is kept["outage_pods_lost"] is True


@pytest.mark.parametrize(
    ("some", "missing"),
    [
        (bench_found(3, 3, 3), {"jobs_per_second", "burst_decision_s_p50", "burst_decision_s_p99", "api_calls_per_job",
                          "api_calls_per_job_operator", "api_calls_per_job_scheduler", "api_calls_per_job_kubelets",
                          "cpu_ms_per_job_operator"}),
        (bench_found(4, 3, 3), {"api_calls_per_job", "api_calls_per_job_operator", "api_calls_per_job_scheduler",
                          "api_calls_per_job_kubelets", "cpu_ms_per_job_operator"}),
        (bench_found(4, 4, 2), {"decision_s_p50", "decision_s_p99", "restart_reconcile_s", "restart_operator_s",
                          "restart_scheduler_s", "outage_revoked", "outage_pods_lost"}),
    ],
)  # fmt: skip
def test_a_bar_is_not_kept_by_what_did_not_come_through(some: controlplane.Found, missing: set[str]) -> None:
    values, kept = values_of(some)
    assert {name for name, value in values.items() if value is None} == missing
    assert {name for name, value in kept.items() if value is None} == missing & controlplane.BARS.keys()


def children() -> set[str]:
    return {child for task in Path("/proc/self/task").iterdir() for child in (task / "children").read_text().split()}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_smallest_run() -> None:
    if not all((BINARIES / program).exists() for program in ("etcd", "kube-apiserver", "helm")):
        pytest.skip(f"no etcd, kube-apiserver and helm in {BINARIES}: `make tools` makes them")
    before = children()
    size = sizes.Sizes(3, 6, steady=2, idle_seconds=1.2 * HEARTBEAT_SECONDS, outage_seconds=2.0, settle_seconds=5.0)
    made = controlplane.run(size, 0, print)
    assert children() == before
    values = {name: row["value"] for name, row in made["figures"].items()}
    assert None not in values.values()
    assert (values["jobs_placed"], values["jobs_finished"]) == (3, 3)
    assert (values["outage_assignments"], values["outage_revoked"]) == (3, 0)
    assert (values["outage_pods"], values["outage_pods_lost"]) == (3, 0)
    assert values["restart_resources"] == 4
    assert values["api_calls_per_job_operator"] >= 2, "a pod and a status"
    assert values["api_calls_per_job_scheduler"] >= 1, "an assignment"
    assert values["api_calls_per_node_minute"] > 0
    assert made["requests"]["burst"]["by_kind"]["POST offlinejobs"] == 3
    assert made["bars"].keys() == controlplane.BARS.keys()

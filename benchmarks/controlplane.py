"""What the control plane bears: a real API server, the real operator and scheduler, simulated nodes.

etcd and kube-apiserver run on this machine's loopback, operator and scheduler as processes of their own with the rights
that the chart gives them. **Simulated**, in one process: the agents (the node agent's own report and its own requests,
of eight devices each, without devices), the kubelets, and what binds pods to nodes. No garbage collector runs.

    idle       nothing is done: requests of a node and minute, and what operator and scheduler take
    steady     jobs come one after the other, five a second: from creation to the assignment in the status
    restart    operator and scheduler are stopped and started with 1,000 jobs running: until all have been looked at
    outage     the API server is killed and comes back a minute later: nothing may be withdrawn, no pod be lost
    burst      all other jobs are made at once, run for 2 to 6 s each and end: jobs placed a second, requests per job

A figure that speaks of all jobs has no value where some were not placed, did not run or did not end: those that came
through would be the quick ones. All of them share this machine's cores with the API server and the simulation, whose
processor time stands beside.
Waits begin just before the request that makes a job, and end when a watch delivers its assignment.
"""

import argparse
import asyncio
import logging
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import structlog
from plane import components
from plane.bench import Bench, Burst, Found, Say
from plane.cluster import furnish
from plane.names import DEVICES, USERS
from plane.sizes import Sizes, sizes
from plane.usage import MEGABYTE
from reporting.bars import Bars
from reporting.jitter import percentile
from reporting.report import Figures, Missing, print_report, report
from rig.child import command, read, running

from rowen.cluster.bare import server as bare
from rowen.cluster.errors import ClusterError

BARS: Bars = {
    "jobs_per_second": (40.0, "at least"),
    "restart_reconcile_s": (60.0, "at most"),
    "operator_rss_mb": (300.0, "at most"),
    "scheduler_rss_mb": (300.0, "at most"),
    "outage_revoked": (0.0, "at most"),
    "outage_pods_lost": (0.0, "at most"),
}
_PARTS = ("operator", "scheduler")


def short(count: int, asked: int, what: str) -> Missing | None:
    """In place of a figure that speaks of all, where some are missing: those that came through are the quick ones."""
    return None if count >= asked else Missing(f"{count} of {asked} {what}")


def wait_figures(name: str, waits: list[float], asked: int) -> Figures:
    """From creation to the assignment, of so many jobs."""
    none = short(len(waits), asked, "jobs were placed")
    return {f"{name}_s_{rank}": (none or percentile(waits, part), "s")
            for rank, part in (("p50", 0.5), ("p99", 0.99))}  # fmt: skip


def burst_figures(found: Burst, jobs: int) -> Figures:
    """Placing, and what a job costs from its creation to its end."""
    unplaced = short(len(found.waits), jobs, "jobs were placed")
    unfinished = short(found.finished, jobs, "jobs have finished")
    figures: dict[str, tuple[float | Missing, str]] = {
        "jobs_per_second": (unplaced or jobs / found.seconds, "1/s"),
        "jobs_placed": (len(found.waits), "jobs"),
        "jobs_asked": (jobs, "jobs"),
        "jobs_finished": (found.finished, "jobs"),
        "jobs_created_per_second": (jobs / found.creating_seconds, "1/s"),
        "api_calls_per_job": (unfinished or sum(found.reading.by_part[part] for part in _PARTS) / jobs, "requests"),
    }
    for part in (*_PARTS, "kubelets"):
        figures[f"api_calls_per_job_{part}"] = unfinished or found.reading.by_part[part] / jobs, "requests"
    for part, seconds in found.reading.cpu_seconds.items():
        figures[f"cpu_ms_per_job_{part}"] = unfinished or 1e3 * seconds / jobs, "ms"
    return figures


def idle_figures(found: Found, nodes: int) -> Figures:
    """Requests and processor time while nothing is done."""
    figures: dict[str, tuple[float | Missing, str]] = {
        "api_calls_per_node_minute": (found.idle.per_minute("agents") / nodes, "requests"),
    }
    for part in _PARTS:
        figures[f"idle_calls_per_minute_{part}"] = found.idle.per_minute(part), "requests"
    for part, seconds in found.idle.cpu_seconds.items():
        figures[f"idle_cpu_{part}"] = seconds / found.idle.seconds, "cores"
    return figures


def other_figures(found: Found, held: int) -> Figures:
    """Memory, restarts, the outage, and how far the simulation was behind. `held`: jobs that should have run then."""
    idle = short(found.running, held, "jobs ran")
    restarts = {part: idle or value for part, value in found.restarts.items()}
    missing = next((value for value in restarts.values() if isinstance(value, Missing)), None)
    values = [value for value in restarts.values() if not isinstance(value, Missing)]
    figures: dict[str, tuple[float | Missing, str]] = {
        "restart_reconcile_s": (missing or max(values), "s"),
        **{f"restart_{part}_s": (value, "s") for part, value in restarts.items()},
        "restart_resources": (found.resources, "objects"),
    }
    for part in _PARTS:
        figures[f"{part}_rss_mb"] = found.peak_rss[part] / MEGABYTE, "MB"
        figures[f"{part}_rest_rss_mb"] = found.rest_rss[part] / MEGABYTE, "MB"
    outage = found.outage
    return figures | {
        "outage_ready_s": (outage.ready_seconds, "s"),
        "outage_placed_s": (outage.placed_seconds, "s"),
        "outage_pods_s": (outage.pods_seconds, "s"),
        "outage_assignments": (outage.assignments, "assignments"),
        "outage_revoked": (short(outage.assignments, held, "jobs had assignments") or outage.revoked, "assignments"),
        "outage_pods": (outage.pods, "pods"),
        "outage_pods_lost": (short(outage.pods, held, "pods ran") or outage.lost, "pods"),
        "idle_reports_late_s_p99": (found.idle_late_seconds, "s"),
        "burst_reports_late_s_p99": (found.burst.late_seconds, "s"),
        "report_failures": (found.burst.crowd["failures"], "reports"),
    }


def result(found: Found, size: Sizes, seed: int) -> dict[str, Any]:
    """The object."""
    jobs = size.jobs - size.held
    figures = {
        **burst_figures(found.burst, jobs),
        **wait_figures("decision", found.steady_waits, size.steady),
        **wait_figures("burst_decision", found.burst.waits, jobs),
        **idle_figures(found, size.nodes),
        **other_figures(found, size.held),
    }
    made = report("controlplane", seed, figures, {}, ("rowen", "kopf", "kubernetes", "aiohttp", "numpy"), BARS)
    made["setup"] = {
        "nodes": size.nodes, "devices_per_node": DEVICES, "jobs": size.jobs, "outage_seconds": size.outage_seconds,
        "simulated": ["agents", "kubelets", "kube-scheduler's binding"],
        "other_load": "unknown: what else ran on the machine was not measured; processor time stands beside wall time",
    }  # fmt: skip
    made["requests"] = {
        phase: {"seconds": reading.seconds, "by_part": dict(reading.by_part), "by_kind": dict(reading.by_kind)}
        for phase, reading in (("idle", found.idle), ("burst", found.burst.reading))
    }
    return made


async def measure(server: bare.ApiServer, folder: Path, size: Sizes, seed: int, say: Say) -> Found:
    """The phases on a server that answers; what it starts has ended when it is over."""
    async with await server.open() as client:
        await furnish(client, size.nodes)
        say(f"{size.nodes} nodes are made")
        kubeconfigs = [server.kubeconfig_for(USERS[part]) for part in ("agents", "kubelets")]
        with ExitStack() as stack:
            crowd = stack.enter_context(running(command("plane.crowd", *kubeconfigs, size.nodes, seed), {}))
            read(crowd)
            parts = {"operator": components.operator(server, folder), "scheduler": components.scheduler(server, folder)}
            for part in parts.values():
                stack.callback(part.stop)
            return await Bench(server, client, parts, crowd, size, seed, say).run()


def run(size: Sizes, seed: int, say: Say) -> dict[str, Any]:
    """The whole benchmark. Raises `ClusterError` where no API server can be had."""
    with bare.running() as server, tempfile.TemporaryDirectory(prefix="rowen-controlplane-") as folder:
        return result(asyncio.run(measure(server, Path(folder), size, seed, say)), size, seed)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="50 nodes, 200 jobs, an outage of 40 s")
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    # That watches end with the API server is no news.
    structlog.configure(
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
    )
    # A plain end would leave the processes behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    try:
        found = run(
            sizes(arguments.nodes, arguments.jobs, quick=arguments.quick), arguments.seed,
            lambda text: print(f"{time.monotonic() - began:7.1f} s  {text}", file=sys.stderr, flush=True),
        )  # fmt: skip
    except (ClusterError, TimeoutError, ValueError) as error:
        sys.exit(f"controlplane: {error}")
    except KeyboardInterrupt:
        sys.exit("controlplane: interrupted; what it had started has ended")
    print_report(found, arguments.json)


if __name__ == "__main__":
    main()

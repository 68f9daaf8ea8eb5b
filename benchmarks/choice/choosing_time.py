"""How long the agent's choice takes, and what an engine's step costs the ledger, at the size of a large GPU."""

import gc
import random
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from choice.chooser import Chooser, ledger_file
from reporting.jitter import Jitter, percentile
from reporting.report import Figures

from rowen.node_agent.devices.library import agent_library
from rowen.runtime.memory.ledger import NativeLedger

HANDLES, OWNERS = 40_000, 1_000
PACKED = 2
PREFIXES, PREFIX_BLOCKS = 4, 128
"""Prompts begin with one of so many prefixes, whose blocks all of their requests share."""
BLOCK_TOKENS = 16
WANTED = (1, 10, 100, 1000, 5000)
"""Handles; each as often as the others."""


@dataclass
class Times:
    """Of choices of one number of handles. Milliseconds."""

    choose_ms: list[float] = field(default_factory=list)
    choose_cpu_ms: list[float] = field(default_factory=list)
    """Of the processor, without the time in which others had it."""
    charge_ms: list[float] = field(default_factory=list)


def full_engine(source: random.Random) -> dict[int, list[int]]:
    """Request → its blocks: of a memory that is almost full, in no order."""
    blocks = list(range(HANDLES * PACKED))
    source.shuffle(blocks)
    prefixes = [[blocks.pop() for _ in range(PREFIX_BLOCKS)] for _ in range(PREFIXES)]
    mean = len(blocks) * 98 // 100 // OWNERS
    return {
        number: prefixes[number % PREFIXES]
        + [blocks.pop() for _ in range(min(len(blocks), source.randrange(2 * mean)))]
        for number in range(OWNERS)
    }


def _percentiles(times: dict[int, Times]) -> dict[str, tuple[float, str]]:
    found: dict[str, list[float]] = {}
    for of_one in times.values():
        for name, values in asdict(of_one).items():
            found.setdefault(name, []).extend(values)
    ranks = (("p50", 0.5), ("p99", 0.99))
    return {f"{name}_{rank}": (percentile(all_, part), "ms") for name, all_ in found.items() for rank, part in ranks}


def choosing_times(seed: int, quick: bool) -> tuple[Figures, dict[str, Any]]:
    """Of choices of 1 to 5,000 among 40,000 handles of 1,000 requests, and of charging all of these anew.

    Figures, over choices of every number of handles, and the raw values, number by number.
    """
    source = random.Random(seed)
    found = full_engine(source)
    eligible = source.sample(range(HANDLES), HANDLES)
    times = {wanted: Times() for wanted in WANTED}
    jitter = Jitter()
    with ledger_file(HANDLES, OWNERS) as descriptor:
        chooser = Chooser(descriptor, HANDLES, OWNERS)
        ledger = NativeLedger(agent_library(), descriptor)
        for number, blocks in found.items():
            ledger.add(number, [block // PACKED for block in blocks])
        tokens = {number: BLOCK_TOKENS * len(blocks) for number, blocks in found.items()}
        gc.collect()
        with jitter.measured():
            for _ in range(20 if quick else 200):
                for wanted, of_one in times.items():
                    tokens = {number: cost + 1 for number, cost in tokens.items()}
                    begin = time.perf_counter()
                    ledger.charge(tokens)
                    of_one.charge_ms.append((time.perf_counter() - begin) * 1e3)
                    _, elapsed, computing = chooser.timed(eligible, wanted)
                    of_one.choose_ms.append(elapsed * 1e3)
                    of_one.choose_cpu_ms.append(computing * 1e3)
        chooser.close()
    figures: Figures = {
        **_percentiles(times),
        "choose_edges": (float(sum(len({block // PACKED for block in own}) for own in found.values())), "1"),
        "choose_jitter_ms_p99": (percentile(jitter.samples, 0.99), "ms"),
    }
    return figures, {**{str(wanted): asdict(of_one) for wanted, of_one in times.items()}, "jitter": jitter.raw()}

"""How long the agent's choice takes, and what an engine's step costs the ledger, at the size of a large GPU."""

import gc
import random
import time

from chooser import Chooser, ledger_file
from preempt import Jitter, percentile
from report import Figures

from rowen.node_agent.devices.library import agent_library
from rowen.runtime.memory.ledger import NativeLedger

HANDLES, OWNERS = 40_000, 1_000
PACKED = 2
PREFIXES, PREFIX_BLOCKS = 4, 128
"""Prompts begin with one of so many prefixes, whose blocks all of their requests share."""
BLOCK_TOKENS = 16
WANTED = (1, 10, 100, 1000, 5000)


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


def _percentiles(name: str, times: list[float]) -> dict[str, tuple[float, str]]:
    return {f"{name}_p50": (percentile(times, 0.5), "ms"), f"{name}_p99": (percentile(times, 0.99), "ms")}


def choosing_times(seed: int, quick: bool) -> Figures:
    """Of choices of 1 to 5,000 among 40,000 handles of 1,000 requests, and of charging all of these anew."""
    source = random.Random(seed)
    found = full_engine(source)
    eligible = source.sample(range(HANDLES), HANDLES)
    choices: list[float] = []
    busy: list[float] = []
    charges: list[float] = []
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
                for wanted in WANTED:
                    tokens = {number: cost + 1 for number, cost in tokens.items()}
                    begin = time.perf_counter()
                    ledger.charge(tokens)
                    charges.append((time.perf_counter() - begin) * 1e3)
                    _, elapsed, computing = chooser.timed(eligible, wanted)
                    choices.append(elapsed * 1e3)
                    busy.append(computing * 1e3)
        chooser.close()
    return {
        **_percentiles("choose_ms", choices),
        # Of the processor, without the time in which others had it.
        **_percentiles("choose_cpu_ms", busy),
        **_percentiles("charge_ms", charges),
        "choose_edges": (float(sum(len({block // PACKED for block in own}) for own in found.values())), "1"),
        "choose_jitter_ms_p99": (percentile(jitter.samples, 0.99), "ms"),
    }

"""The requests that are replayed: sized to the engine's own speed and to the pool, before anything is compared. Pure.

Time runs `SPEED` times as fast as in the trace. Requests are thinned and prompts scaled so that, by a simulation with
the speeds that this run has measured, the engine is busy for `BUSY` of the time over the trace, and its largest need
fills a given part of the pool: with all of it filled StaticMem would have nothing to give.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rowen.demo.traffic.excerpt import TraceRow
from rowen.demo.traffic.scaling import Request, Scaling, scale

SPEED = 20.0
BUSY = 1 / 3
MAX_TOKENS = 512
"""Of a sequence, prompt and answer."""
OUTPUT_TOKENS = 32
"""Most that a request writes."""
STEP_TOKENS = 512
"""Most that one step of the engine works through."""
SEQUENCES = 32
"""Most that the engine runs at once."""
VOCABULARY = 256

_KEEPS = tuple(part / SPEED for part in (0.125, 0.25, 0.5, 1.0, 2.0, 4.0))
"""Parts of the requests that are tried."""
_FACTOR_BITS = 6
"""Prompts are scaled by a multiple of 1 / 2 ** so many."""


@dataclass(frozen=True)
class Memory:
    """A pool."""

    handles: int
    handle_tokens: int
    """Tokens whose keys and values fill a handle."""

    def of(self, tokens: int) -> int:
        """Handles that a sequence of so many tokens takes."""
        return -(-tokens // self.handle_tokens)


@dataclass(frozen=True)
class Stretch:
    """What is replayed of a trace, in seconds of the trace."""

    trace: str
    start: float
    seconds: float

    @property
    def name(self) -> str:
        """In figures."""
        return f"{self.trace}_{self.start:.0f}"

    @property
    def replay_seconds(self) -> float:
        """How long that takes."""
        return self.seconds / SPEED


@dataclass(frozen=True)
class Speeds:
    """What an engine's step takes, in seconds."""

    step: float
    """Whatever it does."""
    prompt_token: float
    """For each token of a prompt."""
    sequence: float
    """For each sequence that gets its next token."""


@dataclass(frozen=True)
class Use:
    """What requests need of an engine."""

    peak: int
    """Most handles at once."""
    busy_seconds: float


@dataclass
class _Running:
    prompt_left: int
    answer_left: int
    tokens: int = 0


def simulated(requests: Sequence[Request], speeds: Speeds, memory: Memory) -> Use:
    """An engine that works through prompts in pieces, beside the next tokens of the others, as vLLM does."""
    waiting, running = deque(requests), list[_Running]()
    now, busy, peak, held = 0.0, 0.0, 0, 0
    while waiting or running:
        if not running:
            now = max(now, waiting[0].arrival)
        while waiting and waiting[0].arrival <= now and len(running) < SEQUENCES:
            if running and held + memory.of(len(waiting[0].prompt)) > memory.handles:
                break
            request = waiting.popleft()
            held += memory.of(len(request.prompt))
            running.append(_Running(len(request.prompt), request.output_tokens))
        writing = [one for one in running if not one.prompt_left]
        budget = STEP_TOKENS - len(writing)
        seconds = speeds.step + speeds.sequence * len(writing)
        for one in running:
            if one.prompt_left:
                piece = min(budget, one.prompt_left)
                budget -= piece
                seconds += speeds.prompt_token * piece
                one.prompt_left -= piece
                one.tokens += piece
                if not one.prompt_left:
                    writing.append(one)
        for one in writing:
            one.answer_left -= 1
            one.tokens += 1
        held = sum(memory.of(one.tokens + one.prompt_left) for one in running)
        peak = max(peak, held)
        running = [one for one in running if one.prompt_left or one.answer_left > 0]
        now += seconds
        busy += seconds
    return Use(peak, busy)


def requests_of(rows: Sequence[TraceRow], rules: Scaling, start: float, seconds: float) -> list[Request]:
    """Of so many seconds of the trace from `start` on; arrivals in seconds of the replay."""
    found = scale(rows, rules, start=start, seconds=seconds)
    return [replace(request, arrival=request.arrival / SPEED) for request in found]


def sized(
    rows: Sequence[TraceRow], seconds: float, speeds: Speeds, memory: Memory, seed: int, peak_part: float
) -> tuple[Scaling, Use]:
    """Rules for the trace's first seconds, and what the requests need by the simulation.

    `peak_part`: of the memory, that the largest need fills at most. Raises `ValueError` when there are no requests, or
    none fit into the memory.
    """
    found: list[tuple[float, Scaling, Use]] = []
    for keep in _KEEPS:
        rules = _largest(rows, seconds, speeds, memory, keep, seed, peak_part)
        if rules is not None:
            use = simulated(requests_of(rows, rules, 0.0, seconds), speeds, memory)
            miss = abs(use.busy_seconds / (seconds / SPEED) - BUSY) + abs(use.peak / memory.handles - peak_part)
            found.append((miss, rules, use))
    if not found:
        raise ValueError(f"no requests of the first {seconds:.0f} s fit into {memory.handles} handles")
    _, rules, use = min(found, key=lambda entry: entry[0])
    return rules, use


def _largest(
    rows: Sequence[TraceRow],
    seconds: float,
    speeds: Speeds,
    memory: Memory,
    keep: float,
    seed: int,
    peak_part: float,
) -> Scaling | None:
    """With the longest prompts that keep the peak within that part of the memory."""
    best, factor = None, 0
    for bit in reversed(range(_FACTOR_BITS + 1)):
        tried = factor + (1 << bit)
        rules = _rules(keep, tried / (1 << _FACTOR_BITS), seed)
        requests = requests_of(rows, rules, 0.0, seconds)
        if requests and simulated(requests, speeds, memory).peak <= peak_part * memory.handles:
            best, factor = rules, tried
    return best


def _rules(keep: float, prompt_factor: float, seed: int) -> Scaling:
    return Scaling(
        keep=keep,
        prompt_factor=prompt_factor,
        prompt_range=(4, MAX_TOKENS - OUTPUT_TOKENS),
        output_max=OUTPUT_TOKENS,
        vocabulary=VOCABULARY,
        seed=seed,
    )

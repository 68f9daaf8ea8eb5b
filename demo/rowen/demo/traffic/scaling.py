"""How the trace becomes load for a small engine on one core.

Arrival times are kept, so bursts and pauses are the trace's own. Requests are thinned at random (seeded), and token
counts are scaled to the engine's context. What is dropped or cut is counted nowhere else: the rules are all here.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from rowen.demo.traffic.excerpt import TraceRow

# Below the first ids of a vocabulary lie its special tokens.
_FIRST_ORDINARY_TOKEN = 8


@dataclass(frozen=True)
class Scaling:
    """Rules of the scaling."""

    keep: float
    """Fraction of the requests that are kept, each by its own coin."""
    prompt_factor: float
    """Prompt tokens per context token of the trace."""
    prompt_range: tuple[int, int]
    """Least and most prompt tokens."""
    output_max: int
    """Most output tokens; counts below are the trace's own."""
    vocabulary: int
    """Prompts are drawn from so many token ids; no id is above the model's vocabulary."""
    seed: int = 0
    """Seed of the coins and of the prompts' tokens."""


@dataclass(frozen=True)
class Request:
    """One request to send."""

    arrival: float
    """Seconds from the start of the replay."""
    prompt: tuple[int, ...]
    """Token ids; random, so that no prefix is cached."""
    output_tokens: int
    """Tokens to write, exactly."""


# Measured on the demo's engine: see docs/demo.md, "Load".
DEMO = Scaling(keep=0.45, prompt_factor=1 / 128, prompt_range=(4, 58), output_max=48, vocabulary=256)


def scale(
    rows: Sequence[TraceRow], rules: Scaling, *, start: float = 0.0, seconds: float | None = None
) -> list[Request]:
    """Requests for the rows that arrive within `seconds` from `start`; arrivals count from `start`.

    The same rows, rules and seed give the same requests, whatever the stretch is.
    """
    random_source = random.Random(rules.seed)  # noqa: S311 - load, not a secret
    least, most = rules.prompt_range
    requests = []
    for row in rows:
        kept = random_source.random() < rules.keep
        prompt_seed = random_source.getrandbits(32)
        if not kept or row.arrival < start or (seconds is not None and row.arrival >= start + seconds):
            continue
        length = min(most, max(least, round(row.context_tokens * rules.prompt_factor)))
        tokens = random.Random(prompt_seed)  # noqa: S311
        prompt = tuple(tokens.randrange(_FIRST_ORDINARY_TOKEN, rules.vocabulary) for _ in range(length))
        requests.append(Request(row.arrival - start, prompt, min(rules.output_max, row.generated_tokens)))
    return requests

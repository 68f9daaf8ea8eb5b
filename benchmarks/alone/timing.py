"""What the programs of this folder are asked, and what they say."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

BATCH_ROWS = 4
SEQUENCE_TOKENS = 128
WARM_UP_STEPS = 3
"""Of a tuner, in which weights are read and memory is found for the first time; they do not count."""


@dataclass(frozen=True)
class Run:
    """What a program is asked to do, as JSON on its command line."""

    model: str
    data: str
    output: str
    steps: int = 0
    """Of a tuner, at least."""
    checkpoint_steps: int = 0
    compiled: bool = False
    """Of plain vLLM: as it is by default, in place of eager."""

    @classmethod
    def asked(cls) -> "Run":
        """Of this process."""
        return cls(**json.loads(sys.argv[1]))


def say(units: float, seconds: float) -> None:
    """Prints how much was done in which time, as the last line."""
    print(json.dumps({"units": units, "seconds": seconds}), flush=True)


def say_steps(ends: list[float]) -> None:
    """Prints how many steps were done in which time. `ends`: of all steps, in seconds."""
    counted = ends[WARM_UP_STEPS:]
    say(len(counted) - 1, counted[-1] - counted[0])


def epochs(path: str, steps: int) -> int:
    """Passes over the rows of a JSONL file that give so many steps at least."""
    rows = sum(bool(line.strip()) for line in Path(path).read_bytes().splitlines())
    return -(-steps // -(-rows // BATCH_ROWS))

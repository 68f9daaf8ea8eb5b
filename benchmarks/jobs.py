"""What Rowen's own workers cost a job that has a device to itself: tokens a second beside the plain libraries'.

Each arm is a process of its own on all CPUs of the machine, with nothing else running; arms take turns in blocks.

    tuner     Rowen's fine-tuning worker               trl           TRL's SFTTrainer, as a user would call it
    batch     Rowen's batch worker                     vllm          vLLM's `LLM.chat`, as it is by default (compiled)
                                                       vllm_eager    the same without compilation, as Rowen runs it

`tuner_vs_trl` and `batch_vs_vllm` are medians over the blocks of Rowen's tokens per second over the library's in the
same block, with their intervals (`reporting/blocks.py`). Both tuners learn the same rows in batches of the same size,
with a checkpoint every `checkpoint_steps`; from the third step on counts. Both engines answer the same chats with the
same numbers of tokens, greedily; loading does not count, writing the results does. `whole_seconds` has all of it: the
process from its start to its end. Tokens of the tuners are those of the rows, without padding, alike for both.

`--quick` takes some five minutes.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from alone.timing import BATCH_ROWS, Run
from reporting.blocks import Block, Increase, increase, there_and_back
from reporting.report import Figures, Missing, print_report, report

from rowen.demo import samples

PROGRAMS = {
    "tuner": "rowen_tuner",
    "trl": "trl_tuner",
    "batch": "rowen_batch",
    "vllm": "vllm_batch",
    "vllm_eager": "vllm_batch",
}
"""Of each arm, in `alone`."""
RATIOS = {
    "tuner_vs_trl": ("tuner", "trl"),
    "batch_vs_vllm": ("batch", "vllm"),
    "batch_vs_vllm_eager": ("batch", "vllm_eager"),
}
BARS = {"tuner_vs_trl": (0.97, "at least"), "batch_vs_vllm": (0.97, "at least")}
_LIMIT_SECONDS = 1800


@dataclass(frozen=True)
class Plan:
    """How much is done."""

    shape: samples.Shape
    blocks: int
    steps: int
    checkpoint_steps: int
    rows: int
    """Of the batch."""
    answer_tokens: int


_SHAPE = samples.Shape(layers=8, hidden=1024, intermediate=2816, heads=16, key_value_heads=4)
QUICK = Plan(_SHAPE, blocks=1, steps=12, checkpoint_steps=5, rows=200, answer_tokens=48)
FULL = Plan(_SHAPE, blocks=6, steps=40, checkpoint_steps=10, rows=400, answer_tokens=48)


@dataclass(frozen=True)
class Repeat:
    """One arm, once."""

    arm: str
    block: int
    tokens_per_second: float
    whole_seconds: float


def chats(rows: int, answer_tokens: int) -> Iterator[dict[str, Any]]:
    """Chats whose answers all have so many tokens."""
    asked = (row for row in samples.requests(2 * rows) if "messages" in row["body"])
    for row in islice(asked, rows):
        body = {**row["body"], "max_tokens": answer_tokens, "temperature": 0.0, "ignore_eos": True}
        del body["seed"]
        yield {**row, "body": body}


def ratio(repeats: Sequence[Repeat], arm: str, base: str) -> Increase:
    """Of tokens per second to another arm's in the same blocks, less 1."""
    bases = {repeat.block: repeat.tokens_per_second for repeat in repeats if repeat.arm == base}
    own = [repeat for repeat in repeats if repeat.arm == arm]
    return increase([(repeat.tokens_per_second, bases[repeat.block]) for repeat in own])


def arm_figures(repeats: Sequence[Repeat], arm: str) -> Figures:
    """Medians over an arm's repeats."""
    own = [repeat for repeat in repeats if repeat.arm == arm]
    return {
        "tokens_per_second": (median(repeat.tokens_per_second for repeat in own), "tokens/s"),
        "whole_seconds": (median(repeat.whole_seconds for repeat in own), "s"),
        "repeats": (float(len(own)), "1"),
    }


def ratio_figures(repeats: Sequence[Repeat]) -> Figures:
    """Each ratio with its interval."""
    figures: dict[str, tuple[float | Missing, str]] = {}
    for name, (arm, base) in RATIOS.items():
        found = ratio(repeats, arm, base)
        interval, missing = found.interval, Missing(found.missing)
        figures[name] = (missing if found.estimate is None else 1 + found.estimate, "ratio")
        figures[f"{name}_low"] = (1 + interval.low if interval else missing, "ratio")
        figures[f"{name}_high"] = (1 + interval.high if interval else missing, "ratio")
    return figures


class Bench:
    """The folder with model and data, and the programs that run on them."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        """Writes model and data."""
        self._folder, self._plan = folder, plan
        with redirect_stdout(sys.stderr):
            samples.write_model(folder / "model", plan.shape)
            samples.write_lines(folder / "rows.jsonl", samples.dialogues(samples.DIALOGUES))
            samples.write_lines(folder / "chats.jsonl", chats(plan.rows, plan.answer_tokens))
        self._row_tokens = _mean_row_tokens(folder / "model", folder / "rows.jsonl")

    def repeat(self, arm: str, block: Block) -> Repeat:
        """Runs the arm's program to its end. Raises `RuntimeError` with what it said when it fails."""
        learns = arm in RATIOS["tuner_vs_trl"]
        run = Run(
            model=str(self._folder / "model"),
            data=str(self._folder / ("rows.jsonl" if learns else "chats.jsonl")),
            output=str(self._folder / f"{arm}-{block.number}"),
            steps=self._plan.steps,
            checkpoint_steps=self._plan.checkpoint_steps,
            compiled=arm == "vllm",
        )
        begin = time.monotonic()
        said = _program(PROGRAMS[arm], run)
        whole = time.monotonic() - begin
        tokens = said["units"] * (BATCH_ROWS * self._row_tokens if learns else 1.0)
        return Repeat(arm, block.number, tokens / said["seconds"], whole)


def _mean_row_tokens(model: Path, data: Path) -> float:
    """Of prompt, completion and end token; no row is cut."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    rows = [json.loads(line) for line in data.read_bytes().splitlines()]
    lengths = [len(tokenizer(row["prompt"] + row["completion"])["input_ids"]) + 1 for row in rows]
    return sum(lengths) / len(lengths)


def _program(name: str, run: Run) -> Mapping[str, float]:
    """What the program says, before whatever vLLM's processes say at their end. Raises `RuntimeError`."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parent),
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
    }
    command = [sys.executable, "-m", f"alone.{name}", json.dumps(asdict(run))]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_LIMIT_SECONDS)
    if ended.returncode != 0:
        raise RuntimeError(f"{name} ended with {ended.returncode}: {ended.stderr[-2000:]}")
    said = [line for line in ended.stdout.splitlines() if line.startswith('{"units": ')]
    if not said:
        raise RuntimeError(f"{name} said nothing of what it did: {ended.stdout[-2000:]}")
    found: dict[str, float] = json.loads(said[-1])
    return found


def run(plan: Plan, seed: int) -> dict[str, Any]:
    """The whole benchmark."""
    started = time.monotonic()
    repeats: list[Repeat] = []
    with tempfile.TemporaryDirectory(prefix="rowen-jobs-") as name:
        bench = Bench(Path(name), plan)
        for block in there_and_back((0.0,), tuple(PROGRAMS), plan.blocks, random.Random(seed)):
            for arm in block.arms:
                repeats.append(bench.repeat(arm, block))
                print(f"block {block.number}: {repeats[-1]}", file=sys.stderr)
    figures: Figures = {
        **ratio_figures(repeats),
        **{f"{arm}_{name}": row for arm in ("tuner", "batch") for name, row in arm_figures(repeats, arm).items()},
        "load_average": (os.getloadavg()[0], "1"),
        "wall_seconds": (time.monotonic() - started, "s"),
    }
    baselines = {arm: arm_figures(repeats, arm) for arm in ("trl", "vllm", "vllm_eager")}
    found = report("jobs", seed, figures, baselines, ("rowen", "torch", "trl", "peft", "vllm"), BARS)
    found["repeats"] = [asdict(repeat) for repeat in repeats]
    return found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object, with raw values")
    parser.add_argument("--quick", action="store_true", help="one block of shorter runs instead of six")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print_report(run(QUICK if arguments.quick else FULL, arguments.seed), arguments.json)


if __name__ == "__main__":
    main()

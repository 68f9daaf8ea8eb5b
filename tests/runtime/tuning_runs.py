"""Fine-tuning workers as processes of their own, forked from a server that has imported torch once."""

import json
import multiprocessing
import os
import signal
import sys
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from rowen.crds.job.fine_tune import Lora
from rowen.crds.job.worker import Location, ModelLocation, TuningSpec, WorkerResult

# The server imports torch before the worker could say so.
os.environ.setdefault("GOMP_SPINCOUNT", "20000")
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["rowen.runtime.tuning.tuner", "transformers.models.llama.modeling_llama"])


@dataclass(frozen=True)
class Ended:
    """How a worker ended."""

    code: int
    result: WorkerResult | None


def spec(model: Path, dataset: Path, output: Path, **changes: Any) -> TuningSpec:
    """A job of 12 steps."""
    return TuningSpec(
        base_model=ModelLocation(name_or_path=str(model)),
        dataset=Location(where=str(dataset)),
        output=Location(where=str(output)),
        lora=Lora(rank=4, alpha=8),
        epochs=3,
        batch_size=4,
        sequence_length=64,
        learning_rate=0.01,
        held_out_fraction=0.2,
        checkpoint_steps=2,
        seed=7,
    ).model_copy(update=changes)


def tune(
    job: TuningSpec, folder: Path, *, attempt: int = 1, die: tuple[str, int] | None = None, ride: str | None = None
) -> Ended:
    """Runs a worker to its end. With `die` it kills itself at the n-th "report", "rename" or "removal".

    With `ride`, an agent's socket, it rides.
    """
    log = folder / f"termination-{attempt}"
    log.write_text("")
    process: ForkServerProcess = _CONTEXT.Process(target=_work, args=(job.model_dump_json(), attempt, die, log, ride))
    process.start()
    process.join()
    assert process.exitcode is not None
    text = log.read_text()
    return Ended(process.exitcode, WorkerResult.from_wire(json.loads(text)) if text else None)


def _work(job: str, attempt: int, die: tuple[str, int] | None, log: Path, ride: str | None) -> None:
    os.environ |= {"ROWEN_JOB_SPEC": job, "ROWEN_ATTEMPT": str(attempt)}
    if ride is not None:
        os.environ["ROWEN_RIDE_SOCKET"] = ride
    from rowen.runtime import worker
    from rowen.runtime.tuning import __main__ as entry
    from rowen.runtime.tuning.results.folder import FolderResults

    if die is not None:
        place, count = die
        places = {
            "report": (worker.Progress, "report"),
            "rename": (Path, "replace"),
            "removal": (FolderResults, "_remove_checkpoint"),
        }
        owner, name = places[place]
        _die_at(owner, name, count)
    sys.exit(worker.run("steps", entry.tune, log))


def _die_at(owner: Any, name: str, count: int) -> None:
    original = getattr(owner, name)
    calls = 0

    def counted(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **named)

    setattr(owner, name, counted)

"""The output of a fine-tuning job: named files, each replaced whole."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import structlog

from rowen.runtime.fence import Fence
from rowen.runtime.files import has_file, make_folder, write_atomically
from rowen.runtime.tuning.metrics import METRICS_FILE, Metrics, read_metrics
from rowen.runtime.tuning.output import ADAPTER_CONFIG_FILE, ADAPTER_FILE, CHECKPOINT_FILE

log = structlog.get_logger()

EVENTS_FOLDER = "tensorboard"
_EVENTS = "events.out.tfevents.{step:010d}.rowen-{digest}"
_OURS = re.compile(r"events\.out\.tfevents\.[0-9]{10}\.rowen-([0-9a-f]{16})")


class Results:
    """Every change to a job's output goes through here, and nothing changes once another attempt has taken over."""

    def __init__(self, folder: Path, fence: Fence, digest: str) -> None:
        """`digest` identifies the job, its data and its model."""
        self._folder = folder
        self._fence = fence
        self._digest = digest

    def finished(self) -> Metrics | None:
        """The metrics of the job if it is complete; what a kill has left of it is cleared away.

        Raises `WorkerError`, `OSError`.
        """
        done = read_metrics(self._folder, self._digest)
        if done is None or not all(has_file(self._folder / name) for name in (ADAPTER_FILE, ADAPTER_CONFIG_FILE)):
            return None
        self._fence.check()
        self._remove_checkpoint()
        return done

    def checkpoint(self) -> bytes | None:
        """The last checkpoint, whole as it was committed, whichever job's it is. Raises `OSError`."""
        try:
            return (self._folder / CHECKPOINT_FILE).read_bytes()
        except FileNotFoundError:
            return None

    def commit(self, checkpoint: bytes, first_step: int, events: bytes) -> None:
        """Replaces the checkpoint and this attempt's TensorBoard events, which begin with that step.

        Raises `WorkerError`, `OSError`.
        """
        self._fence.check()
        folder = make_folder(self._folder / EVENTS_FOLDER)
        digest = self._digest[:16]
        # Those of another job, whose result this one replaces. An attempt that did not come as far as a commit has
        # written none, so no step is told twice.
        for path in folder.iterdir():
            match = _OURS.fullmatch(path.name)
            if match is not None and match[1] != digest:
                path.unlink()
        write_atomically(folder / _EVENTS.format(step=first_step, digest=digest), events)
        write_atomically(self._folder / CHECKPOINT_FILE, checkpoint)

    def finish(self, adapter: Mapping[str, bytes], metrics: Metrics) -> None:
        """Replaces the adapter's files, and says that the job is complete. Raises `WorkerError`, `OSError`."""
        self._fence.check()
        # Metrics of another job must not stand beside this one's adapter.
        (self._folder / METRICS_FILE).unlink(missing_ok=True)
        for name, data in adapter.items():
            write_atomically(self._folder / name, data)
        write_atomically(self._folder / METRICS_FILE, json.dumps(asdict(metrics), indent=1).encode())
        self._remove_checkpoint()

    def _remove_checkpoint(self) -> None:
        (self._folder / CHECKPOINT_FILE).unlink(missing_ok=True)

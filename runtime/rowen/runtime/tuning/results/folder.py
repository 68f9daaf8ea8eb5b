"""The output of a fine-tuning job on a volume: named files, each replaced whole."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from typing_extensions import override

from rowen.runtime.fence import Fence
from rowen.runtime.files import has_file, make_folder, write_atomically
from rowen.runtime.tuning.metrics import METRICS_FILE, Metrics, read_metrics
from rowen.runtime.tuning.output import (
    ADAPTER_CONFIG_FILE,
    ADAPTER_FILE,
    CHECKPOINT_FILE,
    OWNER_FILE,
    REPLACED_FILES,
    check_output,
)
from rowen.runtime.tuning.results.results import EVENTS_FOLDER, Results, events_file, is_replaced


class FolderResults(Results):
    """A folder of files."""

    def __init__(self, folder: Path, model: Path, attempt: int) -> None:
        """Takes the output for this attempt at a job on that model.

        Raises `WorkerError` or `OSError`, and has changed nothing, for what no such job may write.
        """
        check_output(folder, model)
        self._folder = folder
        self._fence = Fence(make_folder(folder) / OWNER_FILE, attempt, [folder / name for name in REPLACED_FILES])

    @override
    def finished(self, digest: str) -> Metrics | None:
        done = read_metrics(self._folder, digest)
        if done is None or not all(has_file(self._folder / name) for name in (ADAPTER_FILE, ADAPTER_CONFIG_FILE)):
            return None
        self._fence.check()
        self._remove_checkpoint()
        self._fence.release()
        return done

    @override
    def checkpoint(self) -> bytes | None:
        try:
            return (self._folder / CHECKPOINT_FILE).read_bytes()
        except FileNotFoundError:
            return None

    @override
    def commit(self, checkpoint: bytes, digest: str, first_step: int, events: bytes) -> None:
        self._fence.check()
        folder = make_folder(self._folder / EVENTS_FOLDER)
        for path in folder.iterdir():
            if is_replaced(path.name, digest):
                path.unlink()
        write_atomically(folder / events_file(first_step, digest), events)
        write_atomically(self._folder / CHECKPOINT_FILE, checkpoint)

    @override
    def finish(self, adapter: Mapping[str, bytes], metrics: Metrics) -> None:
        self._fence.check()
        # Metrics of another job must not stand beside this one's adapter.
        (self._folder / METRICS_FILE).unlink(missing_ok=True)
        for name, data in adapter.items():
            write_atomically(self._folder / name, data)
        write_atomically(self._folder / METRICS_FILE, json.dumps(asdict(metrics), indent=1).encode())
        self._remove_checkpoint()
        self._fence.release()

    @override
    def give_up(self) -> None:
        if not any((self._folder / name).exists() for name in REPLACED_FILES):
            self._fence.release()

    def _remove_checkpoint(self) -> None:
        (self._folder / CHECKPOINT_FILE).unlink(missing_ok=True)

"""The output of a fine-tuning job in object storage: checkpoints are entries of a log, and the result is one, too.

Several objects cannot be replaced at once. So the whole result is made last as one entry first; whoever finds it
there, this attempt or a later one, copies the same bytes to the objects that users read.
"""

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from typing_extensions import override

from rowen.crds.job.worker import Location
from rowen.runtime.files import make_folder
from rowen.runtime.storage.log import Entry, Log
from rowen.runtime.storage.scratch import scratch_folder
from rowen.runtime.storage.store import Store
from rowen.runtime.tuning.metrics import METRICS_FILE, Metrics, read_metrics
from rowen.runtime.tuning.output import ADAPTER_CONFIG_FILE, ADAPTER_FILE, check_files
from rowen.runtime.tuning.results.results import EVENTS_FOLDER, Results, events_file, is_replaced

_LOG = "checkpoints"
_CLAIM, _CHECKPOINT, _RESULT = "claim", "checkpoint", "result"
_FILES = (ADAPTER_FILE, ADAPTER_CONFIG_FILE, METRICS_FILE)
_TELLING_BYTES = 64 * 2**20
"""Of a file that may be Rowen's: metrics, or the header of a file of tensors."""


class StoreResults(Results):
    """A folder of objects."""

    def __init__(self, output: Location, attempt: int) -> None:
        """Takes the output for this attempt. Raises `WorkerError`, and has changed nothing, for what is not Rowen's."""
        self._store = Store(output, "OutputUnwritable")
        self._log = Log(self._store, _LOG, attempt)
        self._saved = self._newest()
        check_files(self._mirror(), self._store.address(), owned=self._log.last > 0)
        while not self._log.has_appended(_CLAIM):
            self._saved = self._newest()

    @override
    def finished(self, digest: str) -> Metrics | None:
        there = self._mirror()
        if self._saved is not None and self._saved.author.kind == _RESULT:
            unpacked = _unpacked(self._saved.body)
            if read_metrics(unpacked, digest) is not None:
                self._publish(unpacked)
                there = unpacked
        done = read_metrics(there, digest)
        if done is None or not all((there / name).exists() for name in (ADAPTER_FILE, ADAPTER_CONFIG_FILE)):
            return None
        self._log.remove(self._log.numbers())
        return done

    @override
    def checkpoint(self) -> bytes | None:
        saved = self._saved
        if saved is None or saved.author.kind != _CHECKPOINT:
            return None
        # As large as all that is learned: it is not kept while the job learns.
        self._saved = replace(saved, body=b"")
        return saved.body

    @override
    def commit(self, checkpoint: bytes, digest: str, first_step: int, events: bytes) -> None:
        self._append(_CHECKPOINT, checkpoint)
        self._store.put(f"{EVENTS_FOLDER}/{events_file(first_step, digest)}", events)
        names = self._store.sizes(EVENTS_FOLDER)
        self._store.remove(name for name in names if is_replaced(name.rpartition("/")[2], digest))

    @override
    def finish(self, adapter: Mapping[str, bytes], metrics: Metrics) -> None:
        files = {**adapter, METRICS_FILE: json.dumps(asdict(metrics), indent=1).encode()}
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        self._append(_RESULT, packed.getvalue())
        self._publish(_unpacked(packed.getvalue()))
        self._log.remove(self._log.numbers())

    @override
    def give_up(self) -> None:
        if self._saved is None:
            self._log.remove(self._log.numbers())

    def _newest(self) -> Entry | None:
        """The last entry that is no claim. Raises `WorkerError` where a newer attempt has written one."""
        for number in reversed(self._log.numbers()):
            entry = self._log.read(number)
            if entry is None:
                # An older attempt has committed once more, or somebody has come to the end.
                return self._newest()
            self._log.last = max(self._log.last, number)
            if entry.author.kind != _CLAIM:
                return entry
        return None

    def _append(self, kind: str, body: bytes) -> None:
        """Makes an entry last and removes those before it. Raises `WorkerError`."""
        before = self._log.last
        self._log.append(kind, body)
        numbers = self._log.numbers()
        if numbers[-2:] != [before, before + 1]:
            # Whoever has taken over has removed what this attempt wrote behind.
            self._log.remove([before + 1])
            raise self._log.superseded()
        self._log.remove(numbers[:-1])

    def _publish(self, folder: Path) -> None:
        # Metrics of another job must not stand beside this one's adapter.
        self._store.remove([METRICS_FILE])
        for name in _FILES:
            self._store.put(name, (folder / name).read_bytes())

    def _mirror(self) -> Path:
        """A local folder with the files that are there, as far as they tell whose they are."""
        folder = make_folder(scratch_folder() / "there")
        for name in _FILES:
            data = self._store.read(name, _TELLING_BYTES)
            if data is not None:
                (folder / name).write_bytes(data)
        return folder


def _unpacked(packed: bytes) -> Path:
    folder = scratch_folder()
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        for name in _FILES:
            archive.extract(name, folder)
    return folder

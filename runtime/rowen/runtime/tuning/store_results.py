"""The output of a fine-tuning job in object storage: checkpoints are entries of a log, and the result is one, too.

Several objects cannot be replaced at once. So the whole result is made last as one entry of the log first; whoever
finds it there, this attempt or a later one, copies the same bytes to the objects that users read.
"""

import io
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from typing_extensions import override

from rowen.crds.worker import Location
from rowen.runtime.storage.log import Entry, Log
from rowen.runtime.storage.scratch import scratch_folder
from rowen.runtime.storage.store import Store
from rowen.runtime.tuning.metrics import METRICS_FILE, Metrics, read_metrics
from rowen.runtime.tuning.output import ADAPTER_CONFIG_FILE, ADAPTER_FILE, CHECKPOINT_FILE, REPLACED_FILES, check_output
from rowen.runtime.tuning.results import EVENTS_FOLDER, Results, events_file, is_of_another_job

_LOG = "checkpoints"
_CLAIM, _CHECKPOINT, _RESULT = "claim", "checkpoint", "result"
_TELLING_BYTES = 64 * 2**20
"""Of a file that may be Rowen's: metrics, and the header of a file of tensors."""


class StoreResults(Results):
    """A folder of objects."""

    def __init__(self, output: Location, attempt: int, digest: str) -> None:
        """Takes the output for this attempt. Raises `WorkerError`, and has changed nothing, for what is not Rowen's."""
        self._digest = digest
        self._store = Store(output, "OutputUnwritable")
        self._log = Log(self._store, _LOG, attempt)
        self._saved = self._read_log()
        self._there = self._mirror()
        check_output(self._there)
        self._log.append(_CLAIM)

    @override
    def finished(self) -> Metrics | None:
        if self._saved is not None and self._saved.author.kind == _RESULT:
            self._publish(_unpacked(self._saved.body))
            self._there = self._mirror()
        done = read_metrics(self._there, self._digest)
        if done is None or not all((self._there / name).exists() for name in (ADAPTER_FILE, ADAPTER_CONFIG_FILE)):
            return None
        self.release()
        return done

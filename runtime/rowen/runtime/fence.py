"""Only the newest attempt of a job writes its output."""

import json
import os
import uuid
from pathlib import Path
from typing import Any

from rowen.crds.names import JOB_UID_ENV
from rowen.crds.worker import ExitCode
from rowen.runtime.failure import WorkerError
from rowen.runtime.files import write_atomically


class Fence:
    """A file beside the output that names the attempt that may write.

    The check and the write after it are two operations: a superseded attempt may still finish the write that it has
    begun. The operator therefore starts a new attempt only when the older one has ended or its lease has run out.
    """

    def __init__(self, path: Path, attempt: int) -> None:
        """Takes the output for this attempt. Raises `WorkerError` when a newer attempt of the job has it."""
        self._path = path
        self._claim = {"job": os.environ.get(JOB_UID_ENV, ""), "attempt": attempt, "claim": uuid.uuid4().hex}
        owner = _read(path)
        if owner.get("job") == self._claim["job"] and owner["attempt"] > attempt:
            raise self._superseded(owner)
        write_atomically(path, json.dumps(self._claim).encode())

    def check(self) -> None:
        """Raises `WorkerError` unless the output is still this attempt's. Called before each commit."""
        owner = _read(self._path)
        if owner != self._claim:
            raise self._superseded(owner)

    def release(self) -> None:
        """The output is complete; nobody owns it."""
        self._path.unlink(missing_ok=True)

    def _superseded(self, owner: dict[str, Any]) -> WorkerError:
        newer = f"attempt {owner['attempt']}" if "attempt" in owner else "another attempt"
        message = f"{newer} has taken over the output of attempt {self._claim['attempt']}"
        return WorkerError("Superseded", message, ExitCode.RETRY)


def _read(path: Path) -> dict[str, Any]:
    try:
        owner = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    known = isinstance(owner, dict) and isinstance(owner.get("attempt"), int)
    return owner if known else {}

"""Only the newest attempt of a job writes its output."""

import os
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from rowen.crds.job.worker import ExitCode
from rowen.crds.names import JOB_UID_ENV
from rowen.runtime.failure import WorkerError
from rowen.runtime.files import has_file, remove_parts, write_atomically

_LONGEST_BYTES = 4096


class _Claim(BaseModel):
    """The content of an owner file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    job: str
    attempt: int
    claim: str


class Fence:
    """A file beside the output that names the attempt that may write.

    The check and the write after it are two operations: a superseded attempt may still finish the write that it has
    begun. The operator therefore starts a new attempt only when the older one has ended or its lease has run out.
    """

    def __init__(self, path: Path, attempt: int, outputs: Iterable[Path] = ()) -> None:
        """Takes the output for this attempt, and removes what killed attempts left of these files that are replaced.

        Raises `WorkerError` when a newer attempt of the job has it, and when the file is not a worker's: such a file
        is left as it is.
        """
        self._path = path
        self._claim = _Claim(job=os.environ.get(JOB_UID_ENV, ""), attempt=attempt, claim=uuid.uuid4().hex)
        owner = _read(path)
        if owner is not None and owner.job == self._claim.job and owner.attempt > attempt:
            raise self._superseded(owner)
        write_atomically(path, self._claim.model_dump_json().encode())
        # After the claim: whoever still writes such a part has lost the output.
        remove_parts([path, *outputs])

    def check(self) -> None:
        """Raises `WorkerError` unless the output is still this attempt's. Called before each commit."""
        owner = _read(self._path)
        if owner != self._claim:
            raise self._superseded(owner)

    def release(self) -> None:
        """Nobody owns the output any more, unless another attempt has taken it."""
        with suppress(WorkerError):
            self.check()
            self._path.unlink(missing_ok=True)

    def _superseded(self, owner: _Claim | None) -> WorkerError:
        newer = f"attempt {owner.attempt}" if owner is not None else "another attempt"
        message = f"{newer} has taken over the output of attempt {self._claim.attempt}"
        return WorkerError("Superseded", message, ExitCode.RETRY)


def has_owner(path: Path) -> bool:
    """Whether a worker has taken the output of that owner file and did not complete it.

    Raises `WorkerError` for a file that is no owner file.
    """
    return _read(path) is not None


def _read(path: Path) -> _Claim | None:
    """The claim in the file; None without one. Raises `WorkerError` for a file that is no owner file."""
    if not has_file(path):
        return None
    try:
        with path.open("rb") as stream:
            return _Claim.model_validate_json(stream.read(_LONGEST_BYTES))
    except FileNotFoundError:
        return None
    except ValidationError as error:
        message = f"{path} is not known to be a worker's owner file: move it away, or name another output"
        raise WorkerError("OutputUnwritable", message) from error

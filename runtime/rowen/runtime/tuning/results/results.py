"""What a fine-tuning job writes, wherever it goes."""

import re
from collections.abc import Mapping
from typing import Protocol

from rowen.runtime.tuning.metrics import Metrics

EVENTS_FOLDER = "tensorboard"


class Results(Protocol):
    """Every change to a job's output goes through here, and nothing changes once another attempt has taken over.

    Who makes one has taken the output for an attempt. All methods raise `WorkerError` and `OSError`.
    """

    def finished(self, digest: str) -> Metrics | None:
        """The metrics of the job with that digest if it is complete; what a kill has left of it is cleared away."""

    def checkpoint(self) -> bytes | None:
        """The last checkpoint, whole as it was committed, whichever job's it is. It is given once."""

    def commit(self, checkpoint: bytes, digest: str, first_step: int, events: bytes) -> None:
        """Replaces the checkpoint and this attempt's TensorBoard events, which begin with that step."""

    def finish(self, adapter: Mapping[str, bytes], metrics: Metrics) -> None:
        """Replaces the adapter's files, says that the job is complete, and gives the output up."""

    def give_up(self) -> None:
        """Leaves nothing of Rowen's where nothing was written yet: what the user puts there is not taken for it."""


_EVENTS = re.compile(r"events\.out\.tfevents\.[0-9]{10}\.rowen-([0-9a-f]{16})")


def is_replaced(events: str, digest: str) -> bool:
    """Whether a file of that name has the events of another job of Rowen's, whose result this one replaces.

    An attempt that did not come as far as a commit has written none, so no step is told twice.
    """
    match = _EVENTS.fullmatch(events)
    return match is not None and match[1] != digest[:16]


def events_file(first_step: int, digest: str) -> str:
    """Name of the file with the TensorBoard events of an attempt at that job which began with that step."""
    return f"events.out.tfevents.{first_step:010d}.rowen-{digest[:16]}"

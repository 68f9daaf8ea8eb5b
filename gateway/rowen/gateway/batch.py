"""A batch as OpenAI's API has it, out of its OfflineJob. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rowen.crds.common import Condition, find_condition, is_true
from rowen.crds.job.offline_job_status import OfflineJobStatus
from rowen.gateway.ids import Role, batch_id, file_id, read_job
from rowen.gateway.jobs import CANCELLED_ANNOTATION, BatchRecord, record_of, window_seconds
from rowen.kube.timestamps import unix_or_none, unix_seconds

Status = Literal["validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"]
ENDED: tuple[Status, ...] = ("failed", "completed", "expired", "cancelled")
_LAST_WORD_SECONDS = 600.0
"""How long after its end a batch's worker may at most still write a group; its pod may be on a node that is lost."""


@dataclass(frozen=True)
class Results:
    """What a batch has written."""

    roles: frozenset[Role]
    """The files that are there."""
    failed: int
    """Rows in the file of errors."""


NO_RESULTS = Results(frozenset(), 0)


@dataclass(frozen=True)
class Batch:
    """A batch: an OfflineJob of the gateway."""

    stem: str
    namespace: str
    name: str
    """The job's name."""
    created: int
    """Unix seconds."""
    cancelling: int | None
    """When it was cancelled, in Unix seconds."""
    record: BatchRecord
    job: OfflineJobStatus

    @property
    def id(self) -> str:
        """OpenAI's id."""
        return batch_id(self.stem)

    @property
    def finished(self) -> Condition | None:
        """The job's end."""
        found = find_condition(self.job.conditions, "Finished")
        return found if found and found.status == "True" else None

    @property
    def status(self) -> Status:
        """OpenAI's word."""
        finished, conditions = self.finished, self.job.conditions
        if finished is not None and finished.reason == "Completed":
            return "completed"
        if self.cancelling is not None:
            stopped = finished or (is_true(conditions, "Suspended") and not is_true(conditions, "Running"))
            return "cancelled" if stopped else "cancelling"
        if finished is not None:
            return "expired" if finished.reason == "DeadlineExceeded" else "failed"
        if not conditions:
            return "validating"
        progress = self.job.progress
        return "finalizing" if progress and 0 < progress.total == progress.completed else "in_progress"

    @property
    def ended(self) -> int | None:
        """When it ended, in Unix seconds, where it has."""
        if self.finished is not None:
            return _seconds(self.job.completion_time or self.finished.last_transition_time)
        suspended = find_condition(self.job.conditions, "Suspended")
        return _seconds(suspended.last_transition_time) if suspended else None

    def settled(self, now: float) -> bool:
        """Whether nothing of its results changes any more at `now` (Unix seconds)."""
        if self.status not in ENDED or self.ended is None:
            return False
        return self.status == "completed" or now - self.ended > _LAST_WORD_SECONDS

    def to_wire(self, results: Results) -> dict[str, Any]:
        """The object; `results` are those of an ended batch."""
        status, record = self.status, self.record
        file_ids = {role: file_id(self.stem, role) if role in results.roles else None for role in ("output", "errors")}
        ends = {f"{word}_at": self.ended if status == word else None for word in ENDED}
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": record.endpoint,
            "model": record.model,
            "errors": self._errors(),
            "input_file_id": record.input_file_id,
            "completion_window": record.completion_window,
            "status": status,
            "output_file_id": file_ids["output"],
            "error_file_id": file_ids["errors"],
            "created_at": self.created,
            "in_progress_at": _seconds(self.job.start_time),
            "expires_at": self.created + window_seconds(record.completion_window),
            "finalizing_at": None,
            **ends,
            "cancelling_at": self.cancelling,
            "request_counts": self._counts(results),
            "metadata": record.metadata,
            "usage": None,
            "rowen": self._rowen(),
        }

    def _counts(self, results: Results) -> dict[str, int]:
        done = self.job.progress.completed if self.job.progress else 0
        return {"total": self.record.rows, "completed": max(0, done - results.failed), "failed": results.failed}

    def _errors(self) -> dict[str, Any] | None:
        finished = self.finished
        if finished is None or self.status != "failed":
            return None
        fault = {"code": finished.reason, "line": None, "message": finished.message, "param": None}
        return {"object": "list", "data": [fault]}

    def _rowen(self) -> dict[str, Any]:
        """What OpenAI's API has no word for: why it is where it is, and how fast it will be."""
        job = self.job
        return {
            "job": self.name,
            "namespace": self.namespace,
            "state": job.state,
            "explanation": job.explanation.message if job.explanation else None,
            "promised_fraction": job.assignment.predicted_fraction if job.assignment else None,
            "predicted_tokens_per_second": job.throughput.predicted_tokens_per_second if job.throughput else None,
            "measured_tokens_per_second": job.throughput.measured_tokens_per_second if job.throughput else None,
            "progress": job.progress.to_wire() if job.progress else None,
        }


def read_batch(raw: Mapping[str, Any]) -> Batch | None:
    """The batch that an OfflineJob is; None of one that is none."""
    metadata = raw["metadata"]
    stem, record = read_job(metadata["name"]), record_of(metadata)
    if stem is None or record is None:
        return None
    cancelled = (metadata.get("annotations") or {}).get(CANCELLED_ANNOTATION)
    return Batch(
        stem=stem,
        namespace=metadata["namespace"],
        name=metadata["name"],
        created=int(unix_seconds(metadata["creationTimestamp"])),
        cancelling=_annotated(cancelled),
        record=record,
        job=OfflineJobStatus.from_wire(raw.get("status") or {}),
    )


def _annotated(text: str | None) -> int | None:
    """Somebody may have written something else there: it is cancelled all the same."""
    try:
        return _seconds(text)
    except ValueError:
        return 0


def _seconds(text: str | None) -> int | None:
    found = unix_or_none(text)
    return None if found is None else int(found)

"""What is known of one OfflineJob at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rowen.crds.common import find_condition, is_true
from rowen.crds.job.offline_job import OfflineJobSpec
from rowen.crds.job.offline_job_status import Assignment, OfflineJobStatus
from rowen.kube.timestamps import unix_or_none
from rowen.operator.decision import Refusal, Trial
from rowen.operator.jobs.start_wait import StartWait
from rowen.operator.pods.engine_address import EngineAddress
from rowen.operator.pods.view import PodView
from rowen.operator.world.listening import Listening
from rowen.operator.world.reports import Report

_NOT_WITHDRAWN = ("Waiting", "Suspended", "Finished")
"""Reasons of `Placed` that a job has, too, whose place nobody has taken away."""


@dataclass(frozen=True)
class JobSnapshot:
    """An OfflineJob with its pods and the reports of the nodes that concern it."""

    namespace: str
    name: str
    uid: str
    generation: int
    spec: OfflineJobSpec
    status: OfflineJobStatus
    runtime_image: str
    start_deadline_seconds: float
    """Longest start where nobody says what is wrong."""
    created: float | None = None
    """Unix time, by the API server's clock; None where it is not told."""
    deleting: bool = False
    pods: tuple[PodView, ...] = ()
    """Pods that the job controls."""
    reports: Mapping[str, Report] = field(default_factory=dict)
    """By node."""
    refusal: Refusal | None = None
    """The API server's answer to the pod that this decision asked for a moment ago."""
    trial: Trial | None = None
    """What the API server said to a dry run of the pod; None before it."""
    listening: Listening | None = None
    """When changes would have been heard; None while none would."""
    engine: EngineAddress | None = None
    """That in which its rows ride; None where its address is not known."""
    wait: StartWait | None = None
    """The wait for the assignment's tenant; None while it runs, or there is none."""

    @property
    def assignment(self) -> Assignment | None:
        """Where the job may run now."""
        return self.status.assignment if is_true(self.status.conditions, "Placed") else None

    @property
    def withdrawal(self) -> str:
        """Why the scheduler withdrew the last assignment, in its own words; empty where it has said nothing of it."""
        placed = find_condition(self.status.conditions, "Placed")
        if placed is None or placed.status != "False" or placed.reason in _NOT_WITHDRAWN:
            return ""
        return f"{placed.reason}: {placed.message}" if placed.message else placed.reason

    def outlives_its_engine(self, pod: PodView) -> bool:
        """Whether a live pod of the assignment sends its rows to an engine that another one has replaced there.

        One that only is away may come back at its address; nothing is sent for a suspended job.
        """
        held = self.assignment
        if self.spec.suspend or not pod.lives or held is None or pod.assignment != held.id:
            return False
        if self.spec.batch_inference is None or not pod.rides or pod.engine is None or self.engine is None:
            return False
        return not pod.engine.reaches(self.engine)

    @property
    def has_users_part(self) -> bool:
        """Whether something in its pod is its user's: what is wrong there no other node and no time helps."""
        return self.spec.template is not None or self.spec.pod_template is not None

    @property
    def kind(self) -> str:
        """FineTune, BatchInference or Template."""
        if self.spec.fine_tune:
            return "FineTune"
        return "BatchInference" if self.spec.batch_inference else "Template"


def job_snapshot(
    job: Mapping[str, Any],
    pods: tuple[PodView, ...],
    reports: Mapping[str, Report],
    runtime_image: str,
    start_deadline_seconds: float,
    refusal: Refusal | None = None,
) -> JobSnapshot:
    """Reads an OfflineJob as the API server returns it. Raises `pydantic.ValidationError`."""
    metadata = job["metadata"]
    return JobSnapshot(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 1),
        created=unix_or_none(metadata.get("creationTimestamp")),
        deleting="deletionTimestamp" in metadata,
        spec=OfflineJobSpec.from_wire(job["spec"]),
        status=OfflineJobStatus.from_wire(job.get("status") or {}),
        runtime_image=runtime_image,
        start_deadline_seconds=start_deadline_seconds,
        pods=tuple(sorted(pods, key=lambda pod: pod.attempt)),
        reports=reports,
        refusal=refusal,
    )

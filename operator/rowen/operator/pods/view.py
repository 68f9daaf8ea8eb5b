"""What a policy needs to know of a pod."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from rowen.crds.job.worker import WorkerResult
from rowen.crds.names import (
    ASSIGNMENT_ANNOTATION,
    ATTEMPT_LABEL,
    ENGINE_POD_ENV,
    ENGINE_URL_ENV,
    ONLINE_RESOURCE,
    RIDE_RESOURCE,
)
from rowen.kube.timestamps import unix_or_none
from rowen.operator.pods.container_ends import Ends, ends_of
from rowen.operator.pods.engine_address import EngineAddress

# The kubelet and the API server give these up as reasons of a failed pod that never had a fair run.
_INFRASTRUCTURE_REASONS = frozenset(
    {"Evicted", "InvalidNodeInfo", "NodeAffinity", "NodeLost", "NodePorts", "NodeShutdown", "Preempting", "Shutdown",
     "TaintToleration", "Terminated", "TopologyAffinityError", "UnexpectedAdmissionError"}
)  # fmt: skip
_HARMLESS_WAITS = frozenset({"ContainerCreating", "PodInitializing"})


@dataclass(frozen=True)
class Problem:
    """Why a pod does not start, in the words of kube-scheduler or the kubelet."""

    reason: str
    message: str
    container: str | None = None
    """The container that has it; None where it is the whole pod's."""


@dataclass(frozen=True)
class PodView:
    """A pod as a policy sees it. Times are Unix seconds."""

    name: str
    uid: str
    tenant: str = ""
    """The container that is the engine or the worker."""
    node: str | None = None
    attempt: int = 0
    assignment: str | None = None
    rides: bool = False
    """It asks for a seat in an engine."""
    engine: EngineAddress | None = None
    """The engine to which it sends rows; None where it sends none."""
    phase: str = "Pending"
    ready: bool = False
    deletion_deadline: float | None = None
    """Deletion was asked for, and the kubelet has until then."""
    initializing: bool = False
    """An init container that ends by itself is running."""
    started_at: float | None = None
    finished_at: float | None = None
    exit_code: int | None = None
    end_reason: str = ""
    end_message: str = ""
    result: WorkerResult | None = None
    disrupted: bool = False
    """It failed for a reason of the cluster's, not its own."""
    problem: Problem | None = None
    ends: tuple[Ends, ...] = ()
    """Of each container that has ended and not been ready since, the tenant first."""

    @property
    def ended(self) -> bool:
        """Whether all its containers have ended for good."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def lives(self) -> bool:
        """Whether it has neither ended nor been asked to."""
        return not self.ended and not self.deleting

    @property
    def runs(self) -> bool:
        """Whether its tenant runs, or has ended beside others that still do.

        A pod whose tenant has ended and that is pending has a container that has not started, and may never end.
        """
        stuck = self.phase == "Pending" and self.exit_code is not None
        return self.started_at is not None and not self.ended and not stuck

    @property
    def turned_away(self) -> bool:
        """Whether it ended before its tenant started, and not by its own fault: most often the kubelet refused it."""
        return self.ended and self.disrupted and self.started_at is None

    @property
    def deleting(self) -> bool:
        """Whether its deletion was asked for."""
        return self.deletion_deadline is not None


def pod_view(pod: Mapping[str, Any]) -> PodView:
    """Reads a pod as the API server returns it."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    statuses, name = status.get("containerStatuses") or (), _tenant(spec)
    tenant, others = _status_of(statuses, name), [entry for entry in statuses if entry.get("name") != name]
    state: Mapping[str, Any] = tenant.get("state") or {}
    ended: Mapping[str, Any] = state.get("terminated") or {}
    message = ended.get("message") or status.get("message") or ""
    return PodView(
        name=metadata["name"],
        uid=metadata["uid"],
        tenant=name,
        node=spec.get("nodeName"),
        attempt=_number((metadata.get("labels") or {}).get(ATTEMPT_LABEL)),
        assignment=(metadata.get("annotations") or {}).get(ASSIGNMENT_ANNOTATION),
        rides=any(_requests(container, RIDE_RESOURCE) for container in spec["containers"]),
        engine=_engine(spec),
        phase=status.get("phase", "Pending"),
        ready=_condition(status, "Ready").get("status") == "True",
        deletion_deadline=unix_or_none(metadata.get("deletionTimestamp")),
        initializing=_initializing(spec, status),
        # The kubelet gives the start of a container that could not be started as 1970.
        started_at=unix_or_none((state.get("running") or ended).get("startedAt")) or None,
        finished_at=_finished_at(metadata, status, ended),
        exit_code=ended.get("exitCode"),
        end_reason=ended.get("reason") or status.get("reason") or "",
        end_message=message,
        result=_result(message),
        disrupted=_disrupted(status),
        problem=_problem(status),
        ends=_ends([tenant, *others, *_failed_inits(status)], status),
    )


def _tenant(spec: Mapping[str, Any]) -> str:
    """Name of the engine, before which a webhook may have put another container, or else of the first one."""
    containers = spec["containers"]
    return str(next(filter(requests_device, containers), containers[0])["name"])


def _engine(spec: Mapping[str, Any]) -> EngineAddress | None:
    """What the operator has told its worker of an engine; a webhook may have put another container before that."""
    workers = (container for container in spec["containers"] if _requests(container, RIDE_RESOURCE))
    told = {entry["name"]: entry.get("value") for worker in workers for entry in worker.get("env") or ()}
    url = told.get(ENGINE_URL_ENV)
    return EngineAddress(url, told.get(ENGINE_POD_ENV)) if url else None


def requests_device(container: Mapping[str, Any]) -> bool:
    """Whether the container asks for `rowen.dev/online`, as an engine does."""
    return _requests(container, ONLINE_RESOURCE)


def _requests(container: Mapping[str, Any], resource: str) -> bool:
    limits: Mapping[str, Any] = (container.get("resources") or {}).get("limits") or {}
    return resource in limits


def _ends(entries: Iterable[Mapping[str, Any]], status: Mapping[str, Any]) -> tuple[Ends, ...]:
    ready = _condition(status, "Ready")
    return tuple(ends for entry in entries if (ends := ends_of(entry, ready)))


def _failed_inits(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Init containers whose last end was none that lets the pod go on."""
    for entry in status.get("initContainerStatuses") or ():
        last = (entry.get("state") or {}).get("terminated") or (entry.get("lastState") or {}).get("terminated") or {}
        if last.get("exitCode"):
            yield entry


def _status_of(statuses: Iterable[Mapping[str, Any]], container: str) -> Mapping[str, Any]:
    return next((entry for entry in statuses if entry.get("name") == container), {})


def _finished_at(metadata: Mapping[str, Any], status: Mapping[str, Any], ended: Mapping[str, Any]) -> float | None:
    """When it ended; a pod that the kubelet turned away never had a container to end."""
    if status.get("phase") not in ("Succeeded", "Failed"):
        return None
    return unix_or_none(ended.get("finishedAt") or status.get("startTime") or metadata.get("creationTimestamp"))


def _initializing(spec: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    sidecars = {entry["name"] for entry in spec.get("initContainers") or () if entry.get("restartPolicy") == "Always"}
    return any(
        "running" in (entry.get("state") or {})
        for entry in status.get("initContainerStatuses") or ()
        if entry.get("name") not in sidecars
    )


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0


def _condition(status: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    return next((entry for entry in status.get("conditions") or () if entry.get("type") == type_), {})


def _disrupted(status: Mapping[str, Any]) -> bool:
    reason = status.get("reason") or ""
    return (
        _condition(status, "DisruptionTarget").get("status") == "True"
        or reason in _INFRASTRUCTURE_REASONS
        or reason.startswith("OutOf")
    )


def _problem(status: Mapping[str, Any]) -> Problem | None:
    if status.get("phase", "Pending") not in ("Pending", "Running"):
        return None
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        return Problem(scheduled.get("reason") or "Unschedulable", scheduled.get("message") or "")
    for entry in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        waiting = (entry.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") and waiting["reason"] not in _HARMLESS_WAITS:
            return Problem(waiting["reason"], waiting.get("message") or _last_words(entry), entry.get("name"))
    return None


def _last_words(entry: Mapping[str, Any]) -> str:
    last = (entry.get("lastState") or {}).get("terminated") or {}
    return last.get("message") or (f"exit code {last['exitCode']}" if "exitCode" in last else "")


def _result(message: str) -> WorkerResult | None:
    try:
        return WorkerResult.model_validate_json(message)
    except ValidationError:
        return None

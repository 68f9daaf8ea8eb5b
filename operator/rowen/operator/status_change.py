"""Whether a status has to be written, and whether that can wait."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

Change = Literal["None", "Quiet", "Loud"]

JOB_FIELDS = (
    "observedGeneration", "conditions", "state", "kind", "attempts", "failures", "countedAttempt",
    "startFailure", "rideRefused", "rideLosses", "progress", "startTime", "completionTime", "result",
)  # fmt: skip
SERVICE_FIELDS = (
    "observedGeneration", "conditions", "replicas", "readyReplicas", "selector", "endpoint", "model", "ttft", "tpot",
    "harvestGuard", "harvestedFraction", "harvested",
)  # fmt: skip

_FIGURES = ("progress", "ttft", "tpot", "harvestedFraction", "harvested")
# These follow every burst of requests.
_RESTLESS_CONDITIONS = ("Preempted",)
_RESTLESS_MESSAGES = ("SLOMet",)


def status_change(current: Mapping[str, Any], wanted: Mapping[str, Any], fields: Iterable[str]) -> Change:
    """Compares the operator's part of the stored status with the wanted one."""
    types = {condition["type"] for condition in wanted["conditions"]}
    stored = {name: current[name] for name in fields if name in current}
    stored["conditions"] = {
        condition["type"]: condition for condition in current.get("conditions") or () if condition["type"] in types
    }
    new = {**wanted, "conditions": {condition["type"]: condition for condition in wanted["conditions"]}}
    if stored == new:
        return "None"
    return "Quiet" if _calm(stored) == _calm(new) else "Loud"


def _calm(status: Mapping[str, Any]) -> dict[str, Any]:
    """The status without its figures; a figure that appears or disappears still shows."""
    calm = {name: (name if name in _FIGURES else value) for name, value in status.items()}
    calm["state"] = "Running" if status.get("state") == "Preempted" else status.get("state")
    calm["conditions"] = {
        type_: {**condition, "message": ""} if type_ in _RESTLESS_MESSAGES else condition
        for type_, condition in status["conditions"].items()
        if type_ not in _RESTLESS_CONDITIONS
    }
    return calm

"""What of other namespaces is told to whom. Pure."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from rowen.scheduler.snapshot import Snapshot

_PART = r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?"
_NAMED = re.compile(rf"(?<![-\w./])(?:(pod|service|OnlineService) )?({_PART})/({_PART})(?![-\w/])")
"""What may be a namespace and a name, with the word for its kind where there is one."""
_HIDDEN = {"pod": "a pod", "service": "the service", "OnlineService": "the OnlineService", None: "a job"}


@dataclass(frozen=True)
class Sight:
    """The namespaces whose jobs somebody may see; None: all."""

    namespaces: frozenset[str] | None

    def sees(self, namespace: str) -> bool:
        """Whether names out of it are told."""
        return self.namespaces is None or namespace in self.namespaces

    def words(self, text: str, labels: Collection[str]) -> str:
        """The text without names of other namespaces.

        `labels` are the `namespace/name` of jobs and pods; of what is called a pod or a service none is needed.
        """
        if self.namespaces is None or "/" not in text:
            return text

        def told(found: re.Match[str]) -> str:
            kind, namespace, name = found.groups()
            if self.sees(namespace) or not (kind or f"{namespace}/{name}" in labels):
                return found[0]
            return f"{_HIDDEN[kind]} of another namespace"

        return _NAMED.sub(told, text)


def labels_of(snapshot: Snapshot) -> frozenset[str]:
    """`namespace/name` of every job and offline pod."""
    jobs = (job.label for job in snapshot.jobs.values())
    pods = (f"{pod.namespace}/{pod.name}" for pod in snapshot.pods)
    return frozenset((*jobs, *pods))


@dataclass(frozen=True)
class Neighbours:
    """The jobs that are on some devices."""

    named: tuple[str, ...]
    """`namespace/name` of those that may be named."""
    others: int
    """How many more there are."""


def neighbours(snapshot: Snapshot, node: str, devices: Iterable[str], sight: Sight) -> Neighbours:
    """Who is on the devices already."""
    wanted = set(devices)
    found = [
        job
        for job in snapshot.jobs_by_node.get(node, ())
        if job.placement is not None and not job.finished and wanted & set(job.placement.devices)
    ]
    named = sorted(job.label for job in found if sight.sees(job.namespace))
    return Neighbours(tuple(named), len(found) - len(named))

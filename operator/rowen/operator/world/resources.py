"""The kinds that the operator watches."""

from dataclasses import replace

from rowen.crds.names import MANAGED_BY_LABEL, MANAGER
from rowen.kube import kinds
from rowen.kube.resource import Resource

_OURS = f"{MANAGED_BY_LABEL}={MANAGER}"

JOBS = kinds.OFFLINE_JOBS
SERVICES = kinds.ONLINE_SERVICES
PODS = replace(kinds.PODS, selector=_OURS)

WATCHED = (
    JOBS,
    SERVICES,
    kinds.NODE_HARVESTS,
    PODS,
    replace(kinds.SERVICES, selector=_OURS),
    kinds.DEPLOYMENTS,
    kinds.STATEFUL_SETS,
)
BY_KIND: dict[str, Resource] = {resource.kind: resource for resource in WATCHED}

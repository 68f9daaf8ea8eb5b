"""The kinds that the operator watches."""

from dataclasses import dataclass

from rowen.crds.names import API_VERSION


@dataclass(frozen=True)
class Resource:
    """A kind as it is listed and watched."""

    kind: str
    api_version: str
    plural: str
    selector: str | None = None
    """Label selector, applied by the API server."""

    @property
    def group(self) -> str:
        """API group; empty for the core."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        """Version within the group."""
        return self.api_version.rpartition("/")[2]


_OURS = "app.kubernetes.io/managed-by=rowen"

JOBS = Resource("OfflineJob", API_VERSION, "offlinejobs")
SERVICES = Resource("OnlineService", API_VERSION, "onlineservices")
HARVESTS = Resource("NodeHarvest", API_VERSION, "nodeharvests")
PODS = Resource("Pod", "v1", "pods", _OURS)
CLUSTER_SERVICES = Resource("Service", "v1", "services", _OURS)
DEPLOYMENTS = Resource("Deployment", "apps/v1", "deployments")
STATEFUL_SETS = Resource("StatefulSet", "apps/v1", "statefulsets")

WATCHED = (JOBS, SERVICES, HARVESTS, PODS, CLUSTER_SERVICES, DEPLOYMENTS, STATEFUL_SETS)

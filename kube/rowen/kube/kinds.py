"""The kinds that components share. What only one of them needs, it declares for itself."""

from rowen.crds.names import API_VERSION
from rowen.kube.resource import Resource

NAMESPACES = Resource("Namespace", "v1", "namespaces")
NODES = Resource("Node", "v1", "nodes")
PODS = Resource("Pod", "v1", "pods")
EVENTS = Resource("Event", "v1", "events")
CONFIG_MAPS = Resource("ConfigMap", "v1", "configmaps")
SERVICES = Resource("Service", "v1", "services")
DEPLOYMENTS = Resource("Deployment", "apps/v1", "deployments")
STATEFUL_SETS = Resource("StatefulSet", "apps/v1", "statefulsets")
LEASES = Resource("Lease", "coordination.k8s.io/v1", "leases")
SELF_REVIEWS = Resource("SelfSubjectReview", "authentication.k8s.io/v1", "selfsubjectreviews")
DEFINITIONS = Resource("CustomResourceDefinition", "apiextensions.k8s.io/v1", "customresourcedefinitions")

ONLINE_SERVICES = Resource("OnlineService", API_VERSION, "onlineservices")
OFFLINE_JOBS = Resource("OfflineJob", API_VERSION, "offlinejobs")
NODE_HARVESTS = Resource("NodeHarvest", API_VERSION, "nodeharvests")

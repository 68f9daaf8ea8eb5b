"""Tells an adopted workload's nodes whose engines they have: its pods get the label of their OnlineService.

Of a pod the node's agent knows no more than the pod itself tells. The workload and its template are left as they are.
"""

import structlog

from rowen.crds.names import SERVICE_LABEL
from rowen.kube.errors import KubeError
from rowen.operator.services.adoption import owns
from rowen.operator.world.cluster import Cluster
from rowen.operator.world.snapshots import World
from rowen.operator.world.store import Key

_log = structlog.get_logger()


class Adopter:
    """Looks at the pods that the nodes report as engines of no service; each is read until it has its label."""

    def __init__(self, world: World, cluster: Cluster) -> None:
        self._world = world
        self._cluster = cluster

    async def adopt(self, service: Key, now: float) -> None:
        """Labels the pods of the service's workload, where it has adopted one. What fails is said, and tried again."""
        for key in self._world.strangers(service, now):
            try:
                await self._adopt(service, key)
            except KubeError as error:
                _log.warning("pod.unlabelled", service=str(service), pod=key.name, error=str(error))

    async def _adopt(self, service: Key, key: Key) -> None:
        pod, workload = await self._cluster.read(key), self._world.workload(service)
        if pod is None or workload is None or not owns(workload, pod):
            return
        labels = pod["metadata"].get("labels") or {}
        if self._world.has_service(service.namespace, labels.get(SERVICE_LABEL)):
            # By this one or another one; its node has not reported it since.
            return
        await self._cluster.label_pod(pod, service.name)
        _log.info("pod.adopted", service=str(service), pod=key.name)

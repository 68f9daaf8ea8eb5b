"""Where the API server has what."""

import pytest

from rowen.kube.kinds import LEASES, NODES, OFFLINE_JOBS, PODS
from rowen.kube.resource import Resource


@pytest.mark.parametrize(
    ("resource", "arguments", "path"),
    [
        (PODS, (), "/api/v1/pods"),
        (PODS, ("n",), "/api/v1/namespaces/n/pods"),
        (PODS, ("n", "p"), "/api/v1/namespaces/n/pods/p"),
        (NODES, (None, "a", "status"), "/api/v1/nodes/a/status"),
        (NODES, ("", "a"), "/api/v1/nodes/a"),
        (LEASES, ("n", "l"), "/apis/coordination.k8s.io/v1/namespaces/n/leases/l"),
        (OFFLINE_JOBS, ("n", "j", "status"), "/apis/rowen.dev/v1alpha1/namespaces/n/offlinejobs/j/status"),
        (PODS, ("n", "../secrets?x"), "/api/v1/namespaces/n/pods/..%2Fsecrets%3Fx"),
    ],
)
def test_paths(resource: Resource, arguments: tuple[str, ...], path: str) -> None:
    assert resource.path(*arguments) == path

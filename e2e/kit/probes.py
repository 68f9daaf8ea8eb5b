"""What the kubelet says of its probes."""

import re
from typing import Any

from kit.kubectl import kubectl

_COUNT = re.compile(r"^prober_probe_total\{(.*)\} (\S+)$", re.MULTILINE)


def probed(pod: dict[str, Any]) -> dict[tuple[str, str], float]:
    """How often the pod was probed, by probe and result, e.g. `("Liveness", "successful")`."""
    text = kubectl("get", "--raw", f"/api/v1/nodes/{pod['spec']['nodeName']}/proxy/metrics/probes")
    found = {}
    for written, count in _COUNT.findall(text):
        labels = dict(re.findall(r'(\w+)="([^"]*)"', written))
        if labels["pod_uid"] == pod["metadata"]["uid"]:
            found[labels["probe_type"], labels["result"]] = float(count)
    return found

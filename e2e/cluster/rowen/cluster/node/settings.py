"""Configuration files of one node: kubelet, containerd, CNI and kube-proxy (JSON is YAML)."""

import json
from typing import Any

from rowen.cluster.layout import HOST_ADDRESS, POD_NETWORK, REGISTRY

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
PAUSE_IMAGE = f"{REGISTRY}/rowen/pause:1"


def containerd() -> str:
    """`restrict_oom_score_adj`: without CAP_SYS_RESOURCE every pod would fail to start.
    `discard_unpacked_layers`: the registry on this machine already keeps the compressed copy.
    """
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
  address = "{CONTAINERD_SOCKET}"

[{cri}]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  max_concurrent_downloads = 4
  stream_server_address = "127.0.0.1"

  [{cri}.containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    discard_unpacked_layers = true

    [{cri}.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

  [{cri}.cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"

  [{cri}.registry]
    config_path = "/etc/containerd/certs.d"
"""


def registry_host() -> str:
    """The registry on this machine speaks plain HTTP."""
    return f'server = "http://{REGISTRY}"\n\n[host."http://{REGISTRY}"]\n  capabilities = ["pull", "resolve"]\n'


def cni(pod_network: str) -> str:
    """`ptp`, not `bridge`: pods on one node then meet the service rules too (no br_netfilter here).
    Addresses are kept below /run, so that a node that lost its power forgets them.
    """
    address = {
        "type": "host-local",
        "ranges": [[{"subnet": pod_network}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": "/run/cni",
    }
    plugin = {"type": "ptp", "ipMasq": False, "mtu": 1500, "ipam": address}
    return _json({"cniVersion": "0.4.0", "name": "rowen", "plugins": [plugin]})


def kubelet(node: str, address: str, group: str, pki: str) -> str:
    """Evictions for lack of disk are off: the disk is shared with everything else on this machine."""
    return _json(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": address,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": f"{pki}/ca.crt"},
            },
            "authorization": {"mode": "Webhook"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{group}",
            "clusterDNS": [HOST_ADDRESS],
            "clusterDomain": "cluster.local",
            "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
            "cpuManagerPolicy": "none",
            "enforceNodeAllocatable": ["pods"],
            "evictionHard": {"memory.available": "200Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
            "failCgroupV1": False,
            "failSwapOn": False,
            "imageGCHighThresholdPercent": 100,
            "makeIPTablesUtilChains": False,
            "maxPods": 110,
            "nodeLeaseDurationSeconds": 20,
            "nodeStatusUpdateFrequency": "5s",
            "oomScoreAdj": 0,
            "resolvConf": "/etc/resolv.conf",
            "tlsCertFile": f"{pki}/kubelet-{node}.crt",
            "tlsPrivateKeyFile": f"{pki}/kubelet-{node}.key",
        }
    )


def kube_proxy(node: str, address: str, kubeconfig: str) -> str:
    """The connection-tracking limits belong to the machine, so they are left alone (0)."""
    return _json(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "bindAddress": "0.0.0.0",
            "clientConnection": {"kubeconfig": kubeconfig},
            "clusterCIDR": POD_NETWORK,
            "conntrack": {
                "maxPerCore": 0,
                "min": 0,
                "tcpCloseWaitTimeout": "0s",
                "tcpEstablishedTimeout": "0s",
            },
            "detectLocalMode": "ClusterCIDR",
            "healthzBindAddress": f"{address}:10256",
            "hostnameOverride": node,
            "metricsBindAddress": f"{address}:10249",
            "mode": "nftables",
            "nodePortAddresses": [f"{address}/32"],
            "oomScoreAdj": 0,
        }
    )


def registry(storage: str) -> str:
    """docker-registry's own configuration."""
    return _json(
        {
            "version": "0.1",
            "log": {"level": "warn", "accesslog": {"disabled": True}},
            "storage": {"filesystem": {"rootdirectory": storage}, "delete": {"enabled": True}},
            "http": {"addr": f"{HOST_ADDRESS}:{REGISTRY.rpartition(':')[2]}"},
        }
    )


def _json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"

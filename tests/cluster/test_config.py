"""Rendered configuration: the settings that a cluster on this machine cannot do without."""

import ipaddress
import json
import tomllib
from pathlib import Path

import pytest

from rowen.cluster import layout
from rowen.cluster.errors import ClusterError
from rowen.cluster.images import prune
from rowen.cluster.layout import Layout
from rowen.cluster.node import network, node, settings
from rowen.cluster.process import cgroup
from rowen.cluster.services import control_plane, dns, pki
from rowen.cluster.tools import gobuild


def test_containerd_starts_pods_without_cap_sys_resource_and_drops_unpacked_layers() -> None:
    cri = tomllib.loads(settings.containerd())["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["restrict_oom_score_adj"] is True
    assert cri["containerd"]["discard_unpacked_layers"] is True
    assert cri["sandbox_image"].startswith(layout.REGISTRY)


def test_the_registry_is_reached_over_plain_http() -> None:
    host = tomllib.loads(settings.registry_host())
    assert list(host["host"]) == [f"http://{layout.REGISTRY}"]


def test_kubelet_lives_in_its_own_cgroup_and_never_evicts_for_the_shared_disk() -> None:
    config = json.loads(settings.kubelet("n", "10.0.0.1", "rowen-dev/n", "/pki"))
    assert config["cgroupRoot"] == "/rowen-dev/n"
    assert config["failCgroupV1"] is False
    assert config["evictionHard"]["nodefs.available"] == config["evictionHard"]["imagefs.available"] == "0%"
    assert config["imageGCHighThresholdPercent"] == 100
    assert config["authentication"]["anonymous"]["enabled"] is False


def test_kube_proxy_leaves_machine_wide_limits_alone() -> None:
    config = json.loads(settings.kube_proxy("n", "10.0.0.1", "/kubeconfig"))
    assert config["mode"] == "nftables"
    assert set(config["conntrack"].values()) == {0, "0s"}


def test_cni_routes_pods_and_forgets_addresses_on_power_loss() -> None:
    plugin = json.loads(settings.cni("10.244.9.0/24"))["plugins"][0]
    assert plugin["type"] == "ptp"
    assert plugin["ipam"]["ranges"] == [[{"subnet": "10.244.9.0/24"}]]
    assert plugin["ipam"]["dataDir"].startswith("/run/")


def test_nodes_share_nothing() -> None:
    pods = [ipaddress.ip_network(each.pod_network) for each in node.NODES]
    assert not pods[0].overlaps(pods[1])
    assert all(each.subnet_of(ipaddress.ip_network(layout.POD_NETWORK)) for each in pods)  # type: ignore[arg-type]
    assert len({each.address for each in node.NODES}) == len({each.group for each in node.NODES}) == len(node.NODES)


def test_interface_names_fit_the_kernel() -> None:
    assert all(len(network.interface(each.name)) <= 15 for each in node.NODES)
    assert len({network.interface(each.name) for each in node.NODES} | {layout.BRIDGE}) == len(node.NODES) + 1


def test_an_unknown_node_is_a_plain_error() -> None:
    with pytest.raises(ClusterError, match="rowen-node-1"):
        node.find("rowen-node-9")


def test_every_node_path_is_bound_from_the_nodes_own_folder() -> None:
    script = node.mount_script(Path("/state/n"))
    assert script.startswith("set -e\nmount --make-rshared /\n")
    for source, target in node.BINDS.items():
        assert f"mount --bind /state/n/{source} {target}\n" in script


def test_certificates_name_what_they_serve() -> None:
    identity = pki.kubelet_identity("n", "10.0.0.1")
    assert identity.subject() == "/O=system:nodes/CN=system:node:n"
    assert "subjectAltName=DNS:n,IP:10.0.0.1" in identity.extensions()
    assert "subjectAltName" not in pki.Identity("x", "x").extensions()
    assert f"IP:{layout.SERVICE_IP}" in pki.SERVER_NAMES


def test_kubeconfig_holds_everything(tmp_path: Path) -> None:
    config = json.loads(pki.render_kubeconfig("YQ==", "Yg==", "Yw=="))
    assert config["clusters"][0]["cluster"]["server"] == layout.API_SERVER
    assert config["current-context"] == config["contexts"][0]["name"]


def test_a_kubeconfig_is_for_its_owner_alone(tmp_path: Path) -> None:
    state = Layout(tmp_path)
    state.pki.mkdir()
    for name in ("ca.crt", "admin.crt", "admin.key"):
        (state.pki / name).write_text(name)
    path = pki.write_kubeconfig(state, "admin", tmp_path / "kubeconfig")
    assert path.stat().st_mode & 0o777 == 0o600


def test_etcd_and_the_api_server_listen_on_local_addresses(tmp_path: Path) -> None:
    state = Layout(tmp_path)
    assert "--client-cert-auth" in control_plane.etcd(state).argv
    assert f"--bind-address={layout.HOST_ADDRESS}" in control_plane.api_server(state).argv


def test_cgroup_v1_is_needed() -> None:
    mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
    assert cgroup.hierarchies(mounts) == [Path("/sys/fs/cgroup/cpu")]
    with pytest.raises(ClusterError, match="CLUSTER=kind"):
        cgroup.hierarchies("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")


def test_a_build_is_repeated_when_its_version_changes(tmp_path: Path) -> None:
    state = Layout(tmp_path)
    state.make()
    group = gobuild.Group("tool", ("tool",), ("example/tool",), "v1")
    assert not gobuild.built(state, group)
    (state.bin / "tool").touch()
    (state.bin / ".tool.stamp").write_text(group.stamp())
    assert gobuild.built(state, group)
    assert not gobuild.built(state, gobuild.Group("tool", ("tool",), ("example/tool",), "v2"))


def test_pods_ask_our_dns_server() -> None:
    config = json.loads(settings.kubelet("n", "10.0.0.1", "rowen-dev/n", "/pki"))
    assert config["clusterDNS"] == [layout.HOST_ADDRESS]
    corefile = dns.corefile("/config/dns.kubeconfig")
    assert f"bind {layout.HOST_ADDRESS}\n" in corefile
    assert f"kubernetes {config['clusterDomain']} " in corefile
    assert "kubeconfig /config/dns.kubeconfig rowen\n" in corefile


def test_pruning_keeps_what_was_built_last_and_what_pods_use() -> None:
    kept = prune.kept_references('{"agent": "r/rowen/agent:2"}', {"r/rowen/agent:1"})
    assert kept == {"r/rowen/agent:2", "r/rowen/agent:1", settings.PAUSE_IMAGE}

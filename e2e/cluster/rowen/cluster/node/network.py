"""The wires: a bridge on the host, a veth pair per further node, routes and masquerading."""

import json
from pathlib import Path

from rowen.cluster.layout import BRIDGE, HOST_ADDRESS, NODE_NETWORK, POD_NETWORK, Layout
from rowen.cluster.process.shell import run, succeeds

TABLE = "rowen-dev"
KUBE_PROXY_TABLES = (("ip", "kube-proxy"), ("ip6", "kube-proxy"))
FORWARD = Path("/proc/sys/net/ipv4/ip_forward")


def ensure_host(layout: Layout) -> bool:
    """Bridge, forwarding and the way out; returns whether anything had to be made."""
    changed = False
    if not succeeds(["ip", "link", "show", BRIDGE]):
        run(["ip", "link", "add", BRIDGE, "type", "bridge"])
        changed = True
    prefix = NODE_NETWORK.rpartition("/")[2]
    run(["ip", "addr", "replace", f"{HOST_ADDRESS}/{prefix}", "dev", BRIDGE])
    run(["ip", "link", "set", BRIDGE, "up"])
    _forward(layout)
    run(["nft", "-f", "-"], stdin=masquerade_rules())
    return changed


def masquerade_rules() -> str:
    """Pods reach the world outside under the machine's address, and one another under their own."""
    ours = f"{{ {POD_NETWORK}, {NODE_NETWORK} }}"
    return f"""table ip {TABLE}
delete table ip {TABLE}
table ip {TABLE} {{
  chain postrouting {{
    type nat hook postrouting priority srcnat + 10; policy accept;
    ip saddr {ours} ip daddr != {ours} masquerade
  }}
}}
"""


def _forward(layout: Layout) -> None:
    """Switch forwarding on, remembering how it was for `down`."""
    saved = layout.root / "ip_forward"
    if not saved.exists():
        saved.write_text(FORWARD.read_text())
    FORWARD.write_text("1")


def connect(name: str, pid: int, address: str, pod_network: str) -> None:
    """Plug a node's network namespace (that of `pid`) into the bridge, with routes both ways."""
    host_end = interface(name)
    inside = ["nsenter", f"--net=/proc/{pid}/ns/net"]
    if not succeeds([*inside, "ip", "link", "show", "eth0"]):
        run(["ip", "link", "add", host_end, "type", "veth", "peer", "name", "eth0", "netns", str(pid)])
    run(["ip", "link", "set", host_end, "master", BRIDGE, "up"])
    prefix = NODE_NETWORK.rpartition("/")[2]
    for words in (
        ["ip", "link", "set", "lo", "up"],
        ["ip", "addr", "replace", f"{address}/{prefix}", "dev", "eth0"],
        ["ip", "link", "set", "eth0", "up"],
        ["ip", "route", "replace", "default", "via", HOST_ADDRESS],
        ["sysctl", "-qw", "net.ipv4.ip_forward=1"],
    ):
        run([*inside, *words])
    run(["ip", "route", "replace", pod_network, "via", address, "dev", BRIDGE])


def route_on_node(pid: int, pod_network: str) -> None:
    """From another namespace, the host's own pods are behind the host."""
    run(["nsenter", f"--net=/proc/{pid}/ns/net", "ip", "route", "replace", pod_network, "via", HOST_ADDRESS])


def interface(node: str) -> str:
    """Name of the host's end of a node's wire; the kernel allows 15 characters."""
    return f"rowen-{node.rpartition('-')[2]}"


def disconnect(node: str) -> None:
    """Remove a node's wire; it goes by itself with the namespace, but not at once."""
    succeeds(["ip", "link", "del", interface(node)])


def leftovers() -> list[str]:
    """What of ours is still in the host's network namespace."""
    links = [link["ifname"] for link in json.loads(run(["ip", "-j", "link"])) if link["ifname"].startswith("rowen")]
    tables = [item["table"] for item in json.loads(run(["nft", "-j", "list", "tables"]))["nftables"] if "table" in item]
    ours = {("ip", TABLE), *KUBE_PROXY_TABLES}
    return links + [f"nft {t['family']} {t['name']}" for t in tables if (t["family"], t["name"]) in ours]


def remove_host(layout: Layout) -> None:
    """Undo `ensure_host`, and what kube-proxy leaves behind."""
    succeeds(["ip", "link", "del", BRIDGE])
    for family, table in (("ip", TABLE), *KUBE_PROXY_TABLES):
        succeeds(["nft", "delete", "table", family, table])
    succeeds(["conntrack", "-D", "-s", POD_NETWORK])
    saved = layout.root / "ip_forward"
    if saved.exists():
        FORWARD.write_text(saved.read_text().strip())
        saved.unlink()

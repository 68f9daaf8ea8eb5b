"""Names of services: CoreDNS beside the API server, asked by every pod directly."""

from rowen.cluster import files
from rowen.cluster.layout import HOST_ADDRESS, Layout
from rowen.cluster.process import daemon
from rowen.cluster.process.daemon import Daemon
from rowen.cluster.process.probe import answers
from rowen.cluster.services import pki

NAME = "coredns"
READY = f"{HOST_ADDRESS}:8181"
IDENTITY = pki.Identity("dns", "rowen-dev-dns", "system:masters")


def corefile(kubeconfig: str) -> str:
    """Services of the cluster; everything else goes where the machine's own questions go."""
    return f""".:53 {{
  bind {HOST_ADDRESS}
  errors
  ready {READY}
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {kubeconfig} rowen
    fallthrough in-addr.arpa
    ttl 5
  }}
  forward . /etc/resolv.conf
  cache 5
}}
"""


def start(layout: Layout) -> bool:
    """Have it run and answer; returns whether it had to be started."""
    kubeconfig = pki.write_kubeconfig(layout, IDENTITY.name, layout.configs / "dns.kubeconfig")
    config = layout.configs / "Corefile"
    files.write(config, corefile(str(kubeconfig)))
    argv = (str(layout.bin / "coredns"), "-conf", str(config))
    changed = daemon.ensure(layout, Daemon(NAME, argv, configs=(config,)))
    daemon.wait_ready(layout, NAME, lambda: answers(f"http://{READY}/ready"), timeout=30)
    return changed

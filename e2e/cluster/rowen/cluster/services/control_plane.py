"""etcd, the API server, the controller manager and the scheduler, on the host's network."""

from rowen.cluster.layout import HOST_ADDRESS, POD_NETWORK, SERVICE_NETWORK, Layout
from rowen.cluster.process import daemon
from rowen.cluster.process.daemon import Daemon
from rowen.cluster.process.shell import run, succeeds
from rowen.cluster.services import pki

ETCD_CLIENT = "https://127.0.0.1:12379"
ETCD_PEER = "http://127.0.0.1:12380"
NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


def start(layout: Layout) -> bool:
    """Have all four run and answer; returns whether any had to be started."""
    admin = pki.write_kubeconfig(layout, "admin", layout.kubeconfig)
    for name in ("controller-manager", "scheduler"):
        pki.write_kubeconfig(layout, name, layout.configs / f"{name}.kubeconfig")
    changed = daemon.ensure(layout, etcd(layout))
    changed |= daemon.ensure(layout, api_server(layout))
    kubectl = ["kubectl", f"--kubeconfig={admin}", "--request-timeout=2s", "get", "--raw", "/readyz"]
    daemon.wait_ready(layout, "kube-apiserver", lambda: succeeds(kubectl), timeout=90)
    changed |= daemon.ensure(layout, controller_manager(layout))
    changed |= daemon.ensure(layout, scheduler(layout))
    return changed


def stop(layout: Layout) -> int:
    """Stop all four; returns how many ran."""
    return sum(daemon.stop(layout, name) for name in reversed(NAMES))


def etcd(layout: Layout) -> Daemon:
    """No fsync: a power cut may lose this cluster, which is made anew in seconds."""
    key = layout.pki
    argv = (
        str(layout.bin / "etcd"),
        f"--data-dir={layout.etcd}",
        f"--listen-client-urls={ETCD_CLIENT}",
        f"--advertise-client-urls={ETCD_CLIENT}",
        f"--listen-peer-urls={ETCD_PEER}",
        f"--initial-advertise-peer-urls={ETCD_PEER}",
        f"--initial-cluster=default={ETCD_PEER}",
        f"--cert-file={key}/etcd.crt",
        f"--key-file={key}/etcd.key",
        f"--trusted-ca-file={key}/ca.crt",
        "--client-cert-auth",
        "--unsafe-no-fsync",
        "--auto-compaction-retention=1",
        "--log-level=warn",
    )
    return Daemon("etcd", argv)


def api_server(layout: Layout) -> Daemon:
    """Short tolerations: end-to-end tests wait for pods of a lost node to be given up."""
    key = layout.pki
    argv = (
        str(layout.bin / "kube-apiserver"),
        f"--etcd-servers={ETCD_CLIENT}",
        f"--etcd-cafile={key}/ca.crt",
        f"--etcd-certfile={key}/apiserver.crt",
        f"--etcd-keyfile={key}/apiserver.key",
        f"--bind-address={HOST_ADDRESS}",
        f"--advertise-address={HOST_ADDRESS}",
        "--secure-port=6443",
        f"--service-cluster-ip-range={SERVICE_NETWORK}",
        f"--client-ca-file={key}/ca.crt",
        f"--tls-cert-file={key}/apiserver.crt",
        f"--tls-private-key-file={key}/apiserver.key",
        f"--kubelet-certificate-authority={key}/ca.crt",
        f"--kubelet-client-certificate={key}/apiserver.crt",
        f"--kubelet-client-key={key}/apiserver.key",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={key}/sa.pub",
        f"--service-account-signing-key-file={key}/sa.key",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--default-not-ready-toleration-seconds=30",
        "--default-unreachable-toleration-seconds=30",
        "--shutdown-delay-duration=0s",
    )
    return Daemon("kube-apiserver", argv)


def controller_manager(layout: Layout) -> Daemon:
    """Pod networks are fixed per node, so none are allocated here."""
    key = layout.pki
    argv = (
        str(layout.bin / "kube-controller-manager"),
        f"--kubeconfig={layout.configs / 'controller-manager.kubeconfig'}",
        f"--authentication-kubeconfig={layout.configs / 'controller-manager.kubeconfig'}",
        f"--authorization-kubeconfig={layout.configs / 'controller-manager.kubeconfig'}",
        "--bind-address=127.0.0.1",
        f"--cluster-cidr={POD_NETWORK}",
        "--allocate-node-cidrs=false",
        f"--cluster-signing-cert-file={key}/ca.crt",
        f"--cluster-signing-key-file={key}/ca.key",
        f"--root-ca-file={key}/ca.crt",
        f"--service-account-private-key-file={key}/sa.key",
        "--use-service-account-credentials",
        "--leader-elect=false",
        "--node-monitor-grace-period=30s",
        "--node-monitor-period=2s",
    )
    return Daemon("kube-controller-manager", argv)


def scheduler(layout: Layout) -> Daemon:
    config = layout.configs / "scheduler.kubeconfig"
    argv = (
        str(layout.bin / "kube-scheduler"),
        f"--kubeconfig={config}",
        f"--authentication-kubeconfig={config}",
        f"--authorization-kubeconfig={config}",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
    )
    return Daemon("kube-scheduler", argv)


def kubectl(layout: Layout, *words: str, timeout: float = 60) -> str:
    """Run kubectl against this cluster."""
    return run(["kubectl", f"--kubeconfig={layout.kubeconfig}", *words], timeout=timeout)

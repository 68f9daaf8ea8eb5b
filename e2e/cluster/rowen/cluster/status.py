"""What of the local cluster runs, in one table."""

from rich.table import Table

from rowen.cluster.layout import Layout
from rowen.cluster.node.node import NODES
from rowen.cluster.process import daemon
from rowen.cluster.services import control_plane, dns, registry


def names() -> list[str]:
    """Every process of the cluster, in the order they are started."""
    return [registry.NAME, *control_plane.NAMES, dns.NAME, *(name for node in NODES for name in node.daemons())]


def table(layout: Layout) -> tuple[Table, bool]:
    """The table, and whether everything runs."""
    rows = Table("process", "pid", "log", box=None)
    complete = True
    for name in names():
        known = daemon.running(layout, name)
        complete &= known is not None
        rows.add_row(name, str(known.pid) if known else "[red]stopped[/]", str(daemon.log_path(layout, name)))
    return rows, complete

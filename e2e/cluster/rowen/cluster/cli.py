"""The command line: python -m rowen.cluster."""

import os
import sys
from typing import Annotated

import typer

from rowen.cluster import local, node, tools
from rowen.cluster.console import console
from rowen.cluster.errors import ClusterError
from rowen.cluster.layout import Layout

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__, rich_markup_mode=None)
node_app = typer.Typer(no_args_is_help=True, help="Stop, start and enter one node of the local cluster.")
app.add_typer(node_app, name="node")
Name = Annotated[str, typer.Argument(help="rowen-node-1 or rowen-node-2")]


@app.command("tools")
def tools_command(
    only: Annotated[str, typer.Option(help="`envtest`: API server, etcd, helm, kubeconform, prometheus")] = "",
) -> None:
    """Install and build the programs the cluster and the tests need."""
    if only not in ("", "envtest"):
        raise ClusterError(f"--only {only}: the one subset is `envtest`")
    layout = Layout()
    with local.exclusive(layout):
        tools.ensure(layout, only_envtest=only == "envtest")


@app.command()
def up() -> None:
    """Bring the cluster up."""
    layout = Layout()
    with local.exclusive(layout):
        local.up(layout)
    console.print(f"export KUBECONFIG={layout.kubeconfig}")


@app.command()
def down(purge: Annotated[bool, typer.Option(help="Remove the caches too.")] = False) -> None:
    """Stop the cluster and remove what it left on the machine."""
    layout = Layout()
    with local.exclusive(layout):
        local.down(layout, purge=purge)
    left = local.leftovers(layout)
    if left:
        raise ClusterError(f"left behind: {', '.join(left)}")


@node_app.command("stop")
def node_stop(name: Name) -> None:
    """Pull the plug of a node."""
    layout = Layout()
    with local.exclusive(layout):
        console.print(f"{name}: {node.stop(layout, node.find(name))} processes killed")


@node_app.command("start")
def node_start(name: Name) -> None:
    """Bring a stopped node back."""
    layout = Layout()
    with local.exclusive(layout):
        local.start_nodes(layout, (node.find(name),))


@node_app.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def node_run(name: Name, command: Annotated[list[str], typer.Argument()]) -> None:
    """Run a program inside a node: its mounts, /run and network."""
    words = [*node.enter(Layout(), node.find(name)), *command]
    os.execvp(words[0], words)


def main() -> None:
    """Turn what a user can act on into one line."""
    try:
        app()
    except ClusterError as error:
        console.print(f"[red]error:[/] {error}", soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        console.print("interrupted; run it again to go on")
        sys.exit(130)

"""Bring up, feed and remove a Kubernetes cluster for development and end-to-end tests."""

import os
import sys
from typing import Annotated

import typer

from rowen.cluster import environment, status
from rowen.cluster.console import console
from rowen.cluster.errors import ClusterError
from rowen.cluster.images import images, prune
from rowen.cluster.layout import Layout
from rowen.cluster.lock import exclusive
from rowen.cluster.modes import existing, kind, local, mode
from rowen.cluster.modes.mode import Mode
from rowen.cluster.node import node
from rowen.cluster.tools import tools

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
node_app = typer.Typer(no_args_is_help=True, help="Stop, start and enter one node of the local cluster.")
app.add_typer(node_app, name="node")
NodeName = Annotated[str, typer.Argument(metavar="NODE", help="rowen-node-1 or rowen-node-2")]


@app.command("tools")
def tools_command(
    only: Annotated[str, typer.Option(help="`envtest`: API server, etcd, helm, kubeconform, prometheus.")] = "",
) -> None:
    """Install and build the programs that the cluster and the tests need."""
    if only not in ("", "envtest"):
        raise ClusterError(f"--only {only}: the one subset is `envtest`")
    layout = Layout()
    with exclusive(layout):
        tools.ensure(layout, only_envtest=only == "envtest")


@app.command()
def up() -> None:
    """Bring the cluster up; CLUSTER is `local`, `kind` or `existing`."""
    layout, where = Layout(), mode.current()
    with exclusive(layout):
        {Mode.LOCAL: local.up, Mode.KIND: kind.up, Mode.EXISTING: existing.up}[where](layout)
    console.print(f"In your shell:\n  {environment.line()}", soft_wrap=True, markup=False)


@app.command("images")
def images_command(
    names: Annotated[list[str] | None, typer.Argument(help="Those to build; all of dockerfiles/ by default.")] = None,
) -> None:
    """Build the images whose content changed, and bring them to the nodes."""
    layout, where = Layout(), mode.current()
    layout.make()
    with exclusive(layout, "images"):
        images.ensure(layout, where, names or [])


@app.command("prune")
def prune_command() -> None:
    """Remove images of the local cluster that nothing refers to any more."""
    layout = Layout()
    with exclusive(layout, "images"), exclusive(layout):
        prune.prune(layout)


@app.command("status")
def status_command() -> None:
    """Show what of the local cluster runs; exit status 1 when something does not."""
    rows, complete = status.table(Layout())
    console.print(rows)
    if not complete:
        raise typer.Exit(1)


@app.command()
def kubeconfig() -> None:
    """Print the path of the kubeconfig."""
    typer.echo(environment.kubeconfig(Layout()))


@app.command()
def env() -> None:
    """Print the lines that bring kubectl, `kubectl rowen` and KUBECONFIG into a POSIX shell."""
    layout = Layout()
    typer.echo(environment.exports(layout))
    for lack in environment.missing(layout):
        console.print(lack, soft_wrap=True, markup=False)


@app.command()
def down(purge: Annotated[bool, typer.Option("--purge", help="Remove all below the root too.")] = False) -> None:
    """Stop the cluster and remove what it left on the machine."""
    layout, where = Layout(), mode.current()
    with exclusive(layout, "images"), exclusive(layout):
        if where is Mode.LOCAL:
            local.down(layout, purge=purge)
        elif where is Mode.KIND:
            kind.down(layout)
        else:
            console.print("CLUSTER=existing: nothing of it is ours")


@node_app.command("stop")
def node_stop(name: NodeName) -> None:
    """Pull the plug of a node."""
    layout = Layout()
    with exclusive(layout):
        console.print(f"{name}: {node.stop(layout, node.find(name))} processes killed")


@node_app.command("start")
def node_start(name: NodeName) -> None:
    """Bring a stopped node back."""
    layout = Layout()
    with exclusive(layout):
        local.start_nodes(layout, (node.find(name),))


@node_app.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def node_run(name: NodeName, command: Annotated[list[str], typer.Argument()]) -> None:
    """Run a program inside a node: its mounts, its /run, its network."""
    # Everything behind the name is passed through, so that the separator arrives too.
    program = command[1:] if command[0] == "--" else command
    words = [*node.enter(Layout(), node.find(name)), *program]
    os.execvp(words[0], words)


def main() -> None:
    """Turn what a user can act on into one line."""
    try:
        app()
    except ClusterError as error:
        console.print("[red]error:[/]", end=" ")
        console.print(str(error), soft_wrap=True, markup=False)
        sys.exit(1)
    except PermissionError as error:
        console.print(f"[red]error:[/] {error.filename}: {error.strerror}; CLUSTER=local needs root", soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        console.print("interrupted; run it again to go on")
        sys.exit(130)

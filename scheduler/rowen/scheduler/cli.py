"""`kubectl rowen`: tells why a job is where it is."""

import asyncio
from typing import Annotated, Any

import httpx
import kr8s
import kr8s.asyncio
import typer
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from rowen.crds.names import API_VERSION
from rowen.crds.offline_job import CandidateExplanation, OfflineJobStatus

app = typer.Typer(help="Rowen on the command line.", no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def _root() -> None:
    """Rowen on the command line."""


@app.command()
def explain(
    job: Annotated[str, typer.Argument(help="Name of the OfflineJob.")],
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Its namespace; the context's by default.")
    ] = None,
) -> None:
    """Prints why an OfflineJob is where it is, or is nowhere."""
    try:
        status = OfflineJobStatus.from_wire(asyncio.run(_status(job, namespace)))
    except (kr8s.ServerError, kr8s.APITimeoutError, httpx.HTTPError, ValidationError, ValueError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    show(job, status, Console())


async def _status(job: str, namespace: str | None) -> dict[str, Any]:
    api = await kr8s.asyncio.api()
    async with api.call_api(
        "GET", version=API_VERSION, namespace=namespace or api.namespace, url=f"offlinejobs/{job}", timeout=10
    ) as response:
        found: dict[str, Any] = response.json()
    return found.get("status") or {}


def show(job: str, status: OfflineJobStatus, console: Console) -> None:
    """Prints conditions, throughput and the candidates."""
    for condition in status.conditions:
        head = f"{condition.type:<10} {condition.status:<8} {condition.reason}"
        console.print(f"{head}: {condition.message}", markup=False)
    if status.throughput is not None:
        values = status.throughput.to_wire().items()
        console.print("; ".join(f"{name} {value:g}" for name, value in values), markup=False)
    if status.explanation is None:
        console.print(f"{job}: the scheduler has not looked at it yet", markup=False)
        return
    console.print(status.explanation.message, markup=False)
    if status.explanation.candidates:
        console.print(_table(status.explanation.candidates))


def _table(candidates: list[CandidateExplanation]) -> Table:
    table = Table(show_edge=False)
    for heading in ("", "Candidate", "Idle", "Memory", "Align", "Sharing", "Predicted", "Reason"):
        table.add_column(heading)
    for candidate in candidates:
        factors = (
            candidate.idle, candidate.memory, candidate.alignment, candidate.sharing, candidate.predicted_fraction
        )  # fmt: skip
        table.add_row(
            "*" if candidate.chosen else "",
            f"{candidate.node}/{'+'.join(candidate.devices)}",
            *(f"{factor:.2f}" for factor in factors),
            candidate.reason,
        )
    return table

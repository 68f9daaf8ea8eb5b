"""`kubectl rowen`: tells why a job is where it is."""

import asyncio
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from rowen.crds.common import find_condition
from rowen.crds.offline_job import CandidateExplanation, OfflineJobStatus
from rowen.scheduler.cli.lookup import StatusError, read_status

app = typer.Typer(
    help="Rowen on the command line.", no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False
)


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
        status = asyncio.run(read_status(job, namespace))
    except StatusError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    show(job, status, Console())


def show(job: str, status: OfflineJobStatus, console: Console) -> None:
    """Prints conditions, throughput, the candidates' factors, and what decided each of them."""

    def say(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    for condition in status.conditions:
        say(f"{condition.type:<10} {condition.status:<8} {condition.reason}: {condition.message}")
    if status.throughput is not None:
        say("; ".join(f"{name} {value:g}" for name, value in status.throughput.to_wire().items()))
    if status.explanation is None:
        say(f"{job}: the scheduler has not looked at it yet")
        return
    finished = find_condition(status.conditions, "Finished")
    if finished is not None and finished.status == "True":
        say("Where the scheduler placed it last:")
    say(status.explanation.message)
    if status.explanation.candidates:
        console.print(_factors(status.explanation.candidates))
    for candidate in status.explanation.candidates:
        say(f"{_name(candidate)}: {candidate.reason}")


def _name(candidate: CandidateExplanation) -> str:
    return f"{candidate.node}/{'+'.join(candidate.devices)}"


def _factors(candidates: list[CandidateExplanation]) -> Table:
    table = Table(show_edge=False)
    for heading in ("", "Candidate", "Idle", "Memory", "Align", "Sharing", "Predicted"):
        table.add_column(heading, overflow="fold")
    for candidate in candidates:
        factors = (
            candidate.idle, candidate.memory, candidate.alignment, candidate.sharing, candidate.predicted_fraction
        )  # fmt: skip
        table.add_row("*" if candidate.chosen else "", _name(candidate), *(f"{factor:.2f}" for factor in factors))
    return table

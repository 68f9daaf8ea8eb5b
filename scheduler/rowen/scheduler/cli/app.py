"""`kubectl rowen`: the commands."""

import asyncio
import inspect
import json
import time
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from dataclasses import asdict
from enum import StrEnum
from functools import wraps
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from rowen.kube.client import Client, Raw
from rowen.scheduler.cli import question, worker_logs
from rowen.scheduler.cli.explanation import show, show_answer
from rowen.scheduler.cli.lookup import find, left_alone, status_of
from rowen.scheduler.cli.session import LOGIN, CommandError, Login, asked, checked, connected, job_name, told
from rowen.scheduler.cli.survey import Overview, Scope, devices, overview
from rowen.scheduler.cli.tables import cut, device_lines, show_overview
from rowen.scheduler.serve.messages import CandidateReply, WhatIf

app = typer.Typer(
    help="Rowen on the command line.", no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False
)


class Output(StrEnum):
    """How an answer is printed."""

    TEXT = "text"
    JSON = "json"


class TopOutput(StrEnum):
    """How devices are printed."""

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"


Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="The context's by default.")]
Format = Annotated[Output, typer.Option("--output", "-o", help="json: for programs.")]
Service = Annotated[
    str, typer.Option("--scheduler", help="NAMESPACE/NAME of the scheduler's Service.", metavar="NAMESPACE/NAME")
]
Account = Annotated[
    str | None, typer.Option("--service-account", help="Ask as this account of the namespace; else by your own token.")
]
Agents = Annotated[str, typer.Option("--agent-namespace", help="Where the agents are, with the nodes' heartbeats.")]
JobName = Annotated[str, typer.Argument(help="Name of the OfflineJob.", metavar="JOB")]
_SERVICE, _AGENTS = "rowen-system/rowen-scheduler", "rowen-agent"
_PAGES_SECONDS = 300.0
"""For every candidate: of a large cluster these are dozens of pages, and the scheduler rests for seconds after each."""


_LOGIN: dict[str, Any] = {
    "kubeconfig": Annotated[str | None, typer.Option("--kubeconfig", help="KUBECONFIG's by default.")],
    "context": Annotated[str | None, typer.Option("--context", help="Of the kubeconfig; the current one by default.")],
}


def _command(work: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A command that also takes the options of a login, and ends with one line where it cannot do its work."""

    @wraps(work)
    def command(*, kubeconfig: str | None = None, context: str | None = None, **named: Any) -> None:
        before = LOGIN.set(Login(kubeconfig, context))
        try:
            asyncio.run(work(**named))
        except CommandError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(1) from None
        finally:
            LOGIN.reset(before)

    signature = inspect.signature(work)
    own = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in _LOGIN.items()
    ]
    # This is what typer makes the options of.
    command.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *own])  # type: ignore[attr-defined]
    command.__annotations__ = {**work.__annotations__, **_LOGIN}
    return command


@app.callback()
def _root() -> None:
    """Rowen on the command line."""


@app.command()
@_command
async def explain(
    job: JobName,
    namespace: Namespace = None,
    candidates: Annotated[bool, typer.Option("--candidates", help="Of a job that waits: every candidate.")] = False,
    account: Account = None,
    scheduler: Service = _SERVICE,
    output: Format = Output.TEXT,
) -> None:
    """Prints why an OfflineJob is where it is, or is nowhere."""
    name = job_name(job)
    where = _namespace(namespace)

    async def read(client: Client) -> tuple[Raw, list[CandidateReply] | None]:
        raw = await find(client, name, where)
        if not candidates or left_alone(raw["spec"]):
            return raw, None
        at = raw["metadata"]["namespace"]
        token = await question.caller_token(client, account, at)
        return raw, await question.candidates(client, scheduler, token, at, name)

    raw, known = await asked(read, _PAGES_SECONDS if candidates else None)
    status = status_of(name, raw)
    if output is Output.JSON:
        answer = (raw.get("status") or {}).get("explanation") or {}
        if known is not None:
            answer = {**answer, "candidates": [entry.to_wire() for entry in known]}
        _print_json(answer)
    else:
        show(name, status, Console(), known, left_alone(raw["spec"]))


@app.command()
@_command
async def status(
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Jobs and services of one only.")] = None,
    everywhere: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="All, or an error; by default all that you may read.")
    ] = False,
    system: Annotated[str, typer.Option("--system-namespace", help="Where Rowen is installed.")] = "rowen-system",
    agents: Agents = _AGENTS,
    output: Format = Output.TEXT,
) -> None:
    """Prints the cluster in a few figures: nodes, services with their SLO, jobs by state, who leads."""
    if namespace is not None and everywhere:
        raise CommandError("--namespace and --all-namespaces exclude one another")
    scope = Scope(_namespace(namespace), everywhere, checked("namespace", system), checked("namespace", agents))

    async def read(client: Client) -> Overview:
        return await overview(client, scope, time.time())

    found = await asked(read)
    if output is Output.JSON:
        _print_json(asdict(found))
    else:
        show_overview(found, Console())


@app.command()
@_command
async def top(
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on until Ctrl-C.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", min=2.0, max=300.0, help="Seconds between two looks, with --watch.")
    ] = 5.0,
    node: Annotated[str | None, typer.Option("--node", help="Devices of this node only.")] = None,
    agents: Agents = _AGENTS,
    output: Annotated[
        TopOutput, typer.Option("--output", "-o", help="wide: with whose the memory is; json: for programs.")
    ] = TopOutput.TEXT,
) -> None:
    """Prints every device: how idle it is, what is harvested, when its node was heard, its service, its tenants."""
    one, where = None if node is None else checked("name of a node", node), checked("namespace", agents)

    async def read(client: Client) -> list[dict[str, Any]]:
        return await devices(client, one, where, time.time())

    if output is TopOutput.JSON:
        if watch:
            raise CommandError("--watch goes with a table, not with -o json")
        _print_json(await asked(read))
        return
    console = Console()
    live = Live(console=console, auto_refresh=False) if watch and console.is_terminal else None
    with live or nullcontext():
        while True:
            lines = device_lines(await asked(read), wide=output is TopOutput.WIDE)
            if live is None:
                typer.echo("\n".join(lines))
            else:
                drawn = "\n".join(cut(lines, console.height - 1))
                live.update(Text(drawn, no_wrap=True, overflow="ellipsis"), refresh=True)
            if not watch:
                return
            await asyncio.sleep(interval)


@app.command()
@_command
async def whatif(
    file: Annotated[str, typer.Option("--filename", "-f", help="Manifest of OfflineJobs; - is standard input.")],
    namespace: Namespace = None,
    account: Account = None,
    scheduler: Service = _SERVICE,
    output: Format = Output.TEXT,
) -> None:
    """Prints where a job would go now, with which throughput, or why nowhere. Nothing is created."""
    where, manifest = _namespace(namespace), question.read_file(file)

    async def put(client: Client) -> tuple[int, dict[str, Any]]:
        drafts = question.read_jobs(manifest, where, client.namespace)
        for draft in drafts:
            await question.check(client, draft)
        asked_for = WhatIf(add=[draft.job for draft in drafts])
        token = await question.caller_token(client, account, asked_for.add[0].namespace)
        return len(asked_for.add), await question.ask(client, scheduler, token, "POST", "/v1/what-if", asked_for)

    added, answer = await asked(put)
    if output is Output.JSON:
        _print_json(answer)
    else:
        show_answer(answer, added, Console())


@app.command()
@_command
async def logs(
    job: JobName,
    namespace: Namespace = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the workers end.")] = False,
    previous: Annotated[bool, typer.Option("--previous", "-p", help="Of the attempt before.")] = False,
    tail: Annotated[int | None, typer.Option("--tail", min=0, help="Only so many of the last lines.")] = None,
) -> None:
    """Prints what the job's workers have written."""
    name, where = job_name(job), _namespace(namespace)
    async with told(), await connected() as client:
        found = await worker_logs.workers(client, name, where, previous=previous)
        await worker_logs.write(client, found, typer.echo, follow=follow, tail=tail)


def _namespace(given: str | None) -> str | None:
    return None if given is None else checked("namespace", given)


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2))

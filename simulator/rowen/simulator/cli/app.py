"""`rowen simulate`: what harvesting would bring on a fleet under a trace."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from rowen.crds.base import quantity_bytes, quantity_text
from rowen.scheduler.policy import Policy
from rowen.simulator.feeds import Format, example, feed
from rowen.simulator.jobs import DEFAULT_CLASSES, JobClass, arriving, never_placed, read_classes
from rowen.simulator.json_file import InputError, faults, read_as, read_json
from rowen.simulator.loop import Outcome, simulate
from rowen.simulator.node.engine import Engine
from rowen.simulator.picture import draw
from rowen.simulator.result import result
from rowen.simulator.shape import Shape
from rowen.simulator.traces.reading import TraceError
from rowen.simulator.variants import Name, variant

_OPTIONS = {
    "nodes": "--nodes", "devices_per_node": "--devices", "services_per_node": "--services",
    "memory_bytes": "--device-memory (bytes)", "seconds": "--hours (seconds)", "step_seconds": "--step-seconds",
    "pass_seconds": "--pass-seconds",
}  # fmt: skip
"""What a field of the fleet's shape is called on the command line."""

app = typer.Typer(
    help="Rowen away from a cluster.", no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False
)


@app.callback()
def _root() -> None:
    """Rowen away from a cluster."""


@app.command("simulate")
def simulate_command(
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Trace of the online services: a file or, for servegen and alibaba, a folder. "
            "Without one, made-up days and bursts."
        ),
    ] = None,
    format_: Annotated[Format | None, typer.Option("--format", help="Of the trace; plain by default.")] = None,
    load: Annotated[
        float,
        typer.Option(
            min=0.001,
            max=1000.0,
            help="Request rate of each service, as a multiple of the trace's or "
            "example's; for servegen, requests a second.",
        ),
    ] = 1.0,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of the fleet.")] = 100,
    devices: Annotated[int, typer.Option(min=1, max=64, help="Devices of each node.")] = 1,
    services: Annotated[
        int,
        typer.Option(min=1, max=64, help="Online services of each node; each has an equal part of its devices."),
    ] = 1,
    device_memory: Annotated[str, typer.Option(help="Of each device, as 80Gi.")] = "80Gi",
    hours: Annotated[float, typer.Option(min=0.01, max=8784.0, help="Simulated time.")] = 24.0,
    step_seconds: Annotated[
        float,
        typer.Option(min=1.0, max=3600.0, help="What is reckoned at once; the reports' window is 60 s, or a step."),
    ] = 60.0,
    pass_seconds: Annotated[
        float,
        typer.Option(
            min=1.0,
            max=86400.0,
            help="From one report, and one pass of the scheduler, to the next; a multiple of --step-seconds.",
        ),
    ] = 60.0,
    jobs: Annotated[Path | None, typer.Option(help="JSON list of job classes; see docs/simulator.md.")] = None,
    first_jobs: Annotated[int, typer.Option(min=0, help="Jobs that wait at the beginning.")] = 0,
    demand: Annotated[
        float,
        typer.Option(min=0.0, max=10.0, help="Device time alone that later jobs need, over all device time."),
    ] = 0.5,
    engine: Annotated[
        Path | None,
        typer.Option(help="JSON object with the engine's constants; see docs/simulator.md."),
    ] = None,
    scheduler: Annotated[Name, typer.Option(help="How jobs are scheduled.")] = Name.ROWEN,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same result.")] = 0,
    processes: Annotated[
        int | None,
        typer.Option(min=0, max=64, help="Processes beside this one; by default one less than CPUs."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder for result.json, utilisation.png and cdf.png; made where it is missing."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Prints the result as JSON.")] = False,
) -> None:
    """Simulates a fleet: online services under a trace, offline jobs placed by Rowen's own scheduler."""
    if trace is None and format_ is not None:
        _fail("--format is of a --trace: there is none")
    try:
        memory_bytes = quantity_bytes(device_memory)
    except (ValueError, OverflowError) as error:
        _fail(f"--device-memory: {error}")
    if devices % services:
        _fail(f"--devices: {devices} cannot be shared equally by --services {services}; give a multiple of it")
    if pass_seconds % step_seconds:
        _fail(f"--pass-seconds: {pass_seconds:g} is no multiple of --step-seconds {step_seconds:g}")
    try:
        shape = Shape(
            nodes=nodes,
            devices_per_node=devices,
            services_per_node=services,
            memory_bytes=memory_bytes,
            seconds=hours * 3600.0,
            step_seconds=step_seconds,
            pass_seconds=pass_seconds,
            window_seconds=max(1.0, round(60.0 / step_seconds)) * step_seconds,
        )
        kinds = DEFAULT_CLASSES if jobs is None else read_classes(jobs)
        constants = Engine() if engine is None else read_as(Engine, read_json(engine), str(engine))
        source = example(load, seed) if trace is None else feed(trace, format_ or Format.PLAIN, load, seed)
    except ValidationError as error:
        _fail(*faults(error, "", _OPTIONS))
    except (InputError, TraceError) as error:
        _fail(*str(error).splitlines())
    _check_room(shape, constants, kinds, str(jobs or "the default jobs"))
    arriving_jobs = arriving(kinds, shape.devices, demand, first_jobs, shape.seconds, seed)
    beside = max(0, (os.cpu_count() or 1) - 1) if processes is None else processes
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(f"{shape.nodes} nodes, {hours:g} h", total=shape.steps * shape.step_seconds)
        outcome = simulate(
            shape, source, constants, arriving_jobs, variant(scheduler, Policy()),
            processes=beside, progress=lambda seconds: shown.update(task, completed=seconds),
        )  # fmt: skip
    found = {"scheduler": str(scheduler), "seed": seed, "engine": constants.model_dump(), **result(outcome)}
    if output is not None:
        _write(outcome, found, output)
    if as_json:
        typer.echo(json.dumps(found))
    else:
        show(found, Console())


def _check_room(shape: Shape, engine: Engine, kinds: Sequence[JobClass], jobs: str) -> None:
    """That a device holds the engine, and a node at least one job of each class beside it."""
    online = engine.memory_bytes + engine.pool_bytes
    room = shape.memory_bytes - online
    if room < 0:
        _fail(
            f"the engine's memory_bytes and pool_bytes are {quantity_text(online)} together, a device has "
            f"{quantity_text(shape.memory_bytes)}"
        )
    refusals = [
        f"{jobs}, job class {number} ({kind.name}): {why}"
        for number, kind in enumerate(kinds, 1)
        if (why := never_placed(kind, shape.devices_per_node, room))
    ]
    if refusals:
        _fail(*refusals)


def _write(outcome: Outcome, found: dict[str, Any], folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "result.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        draw(outcome, folder)
    except OSError as error:
        _fail(f"{folder}: {error}")


def _fail(*faults: str) -> NoReturn:
    for fault in faults:
        typer.echo(f"error: {fault}", err=True)
    raise typer.Exit(1)


def show(found: dict[str, Any], console: Console) -> None:
    """Prints the figures for people."""
    if not found["counts"]["jobs"]:
        console.print(
            "No job arrived, so nothing was harvested: --first-jobs, --demand, --nodes or --hours bring more."
        )
    table = Table(show_edge=False, show_header=False)
    for name, value in {**found["figures"], **found["counts"]}.items():
        shown = "-" if value is None else f"{value:,.4g}" if isinstance(value, float) else str(value)
        table.add_row(name.replace("_", " "), shown)
    console.print(table)

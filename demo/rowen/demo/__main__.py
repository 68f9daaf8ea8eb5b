"""`python -m rowen.demo run`."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rowen.demo.errors import DemoError
from rowen.demo.lock import only_run
from rowen.demo.mode import Mode
from rowen.demo.run import Settings, run_demo
from rowen.demo.traffic.excerpt import EXCERPT_SECONDS

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Rowen's main job on a real cluster.")


@app.callback()
def _main() -> None:
    """Rowen's main job on a real cluster."""


@app.command()
def run(
    mode: Annotated[Mode, typer.Option(help="How jobs run beside the service.")] = Mode.PREEMPT,
    out: Annotated[Path, typer.Option(help="Folder of the report and the picture.")] = Path("out/demo"),
    values: Annotated[Path | None, typer.Option(help="Helm values; chosen by the cluster where absent.")] = None,
    seconds: Annotated[
        float, typer.Option(min=10, max=EXCERPT_SECONDS, help="Length of the replay.")
    ] = EXCERPT_SECONDS,
    job_limit: Annotated[float, typer.Option(min=1, help="Seconds that jobs may take after the replay.")] = 600.0,
) -> None:
    """Installs Rowen, applies its examples, replays traffic, waits for the jobs and reports. Exit 1: a check failed."""
    console = Console(highlight=False)
    settings = Settings(mode, Path.cwd(), out, values, seconds, job_limit)
    try:
        with only_run(out):
            passed = asyncio.run(run_demo(settings, console))
    except DemoError as error:
        console.print(f"[bold red]The demo cannot go on:[/bold red] {error}", markup=True)
        console.print(error.hint, markup=False)
        sys.exit(2)
    except KeyboardInterrupt:
        console.print("interrupted; run it again at any time")
        sys.exit(130)
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    app()

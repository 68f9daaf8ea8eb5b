"""The program `kubectl-rowen`, which kubectl runs as `kubectl rowen`."""

import sys


def main() -> None:
    """Runs the command line. Exit status 1: a library of the extra `cli` is not installed, or the command failed."""
    try:
        from rowen.scheduler.cli.app import app
    except ModuleNotFoundError as error:
        library = (error.name or "rowen").partition(".")[0]
        if library == "rowen":
            raise
        sys.exit(
            f"error: {library} is not installed; `pip install '.[cli]'` in Rowen's checkout brings what is missing"
        )
    app(prog_name="kubectl rowen")

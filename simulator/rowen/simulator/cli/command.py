"""The program `rowen`."""

import sys


def main() -> None:
    """Runs the command line. Exit status 1: a library of the extra `simulator` is not installed, or it failed."""
    try:
        from rowen.simulator.cli.app import app
    except ModuleNotFoundError as error:
        library = (error.name or "rowen").partition(".")[0]
        if library == "rowen":
            raise
        sys.exit(f"error: {library} is not installed; `pip install '.[simulator]'` in Rowen's checkout brings it")
    app(prog_name="rowen")

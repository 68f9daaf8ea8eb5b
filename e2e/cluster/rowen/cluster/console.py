"""What the user sees: one line per step, with its time."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console

console = Console(highlight=False, stderr=True)


@dataclass
class Step:
    """One line of output; `note` says what happened, `skipped` that nothing had to."""

    title: str
    note: str = ""
    skipped: bool = False

    def skip(self, why: str) -> None:
        self.skipped, self.note = True, why


@contextmanager
def step(title: str) -> Iterator[Step]:
    """Show that a step runs, and then how it ended."""
    current = Step(title)
    began = time.monotonic()
    try:
        with console.status(title):
            yield current
    except BaseException:
        console.print(f"[red]✗[/] {title}")
        raise
    mark = "[dim]·[/]" if current.skipped else "[green]✓[/]"
    took = "" if current.skipped else f" [dim]{time.monotonic() - began:.1f} s[/]"
    note = f" [dim]({current.note})[/]" if current.note else ""
    console.print(f"{mark} {title}{note}{took}")

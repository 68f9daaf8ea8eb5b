"""The modes that the demo shows."""

from enum import StrEnum
from pathlib import Path


class Mode(StrEnum):
    """How jobs run beside the demo's service: its `harvest.mode`."""

    PREEMPT = "Preempt"
    """While the engine is idle."""
    CO_SERVE = "CoServe"
    """Inside the engine, busy or idle."""

    def examples(self, root: Path) -> Path:
        """The folder with its service and jobs, in the repository at `root`."""
        folder = root / "examples"
        return folder / "coserve" if self is Mode.CO_SERVE else folder

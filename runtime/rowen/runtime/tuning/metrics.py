"""What a fine-tuning job achieved."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from pydantic import TypeAdapter, ValidationError

log = structlog.get_logger()

METRICS_FILE = "metrics.json"

_KEYS = frozenset({"digest", "steps", "base_loss", "adapter_loss", "training_rows", "dropped_rows", "training_losses"})
"""What every version has written."""


@dataclass(frozen=True)
class Metrics:
    """What the job achieved; its file is written last and marks the job as complete."""

    digest: str
    """Identifies spec, dataset and base model."""
    steps: int
    base_loss: float | None
    """Held-out loss per token of the base model; None when nothing was held out."""
    adapter_loss: float | None
    """Held-out loss per token with the adapter."""
    training_rows: int
    held_out_rows: int
    cut_rows: int
    """Rows of which the end was cut off."""
    dropped_rows: int
    """Rows whose prompt alone fills the sequence."""
    training_losses: list[float]
    """Mean loss per token of each step."""
    evaluations: list[tuple[int, float]]
    """Step and held-out loss per token of each evaluation while it trained."""
    best_step: int | None
    """Step of the evaluation whose adapter is the result; None: that of the last step."""
    skipped_rows: int = 0
    """Rows that are wrong, and were left out."""
    skipped: str = ""
    """Where the first of them are, and what is wrong with them."""

    def sentence(self) -> str:
        """For a person."""
        rows = f"{self.steps} steps over {self.training_rows} rows"
        if self.base_loss is None or self.adapter_loss is None:
            return f"{rows}{self._too_long()}{self._skipped()}"
        best = "" if self.best_step is None else f" of step {self.best_step}"
        losses = f"held-out loss {self.base_loss:.4f} (base) -> {self.adapter_loss:.4f} (adapter{best})"
        return f"{losses}, {rows}, {self.held_out_rows} held out{self._too_long()}{self._skipped()}"

    def _too_long(self) -> str:
        cut = f"; {self.cut_rows} rows were cut" if self.cut_rows else ""
        dropped = f"; {self.dropped_rows} rows left nothing to learn" if self.dropped_rows else ""
        return f"{cut}{dropped}: raise sequenceLength" if cut or dropped else ""

    def _skipped(self) -> str:
        if not self.skipped_rows:
            return ""
        rows = "row was" if self.skipped_rows == 1 else "rows were"
        return f"; {self.skipped_rows} malformed {rows} left out: {self.skipped}"


_METRICS = TypeAdapter(Metrics)


def read_metrics(folder: Path, digest: str) -> Metrics | None:
    """The metrics of the job with that digest if it is complete."""
    value = _read(folder / METRICS_FILE)
    if value is None:
        return None
    if value.get("digest") != digest:
        log.warning("the output holds another job's result, which will be replaced", folder=str(folder))
        return None
    try:
        return _METRICS.validate_python(value)
    except ValidationError as error:
        log.warning("the metrics cannot be read: the job is run again", folder=str(folder), error=str(error))
        return None


def is_metrics(path: Path) -> bool | None:
    """Whether the file is of this or of a former version's tuner; None when it is no JSON at all."""
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
    return isinstance(value, dict) and value.keys() >= _KEYS


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None

"""Draws what `coserve_batch.py --json` printed: rows a second and latencies, by how rows share the engine."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coserving.picture import draw_panels

PANELS = {
    "offline_load_": "rows, tokens/s",
    "attainment_load_": "requests within the bounds",
    "ttft_p99_load_": "TTFT p99, ms",
    "tpot_p99_load_": "TPOT p99, ms",
}


def draw(obj: Mapping[str, Any], path: Path) -> None:
    """Writes the picture."""
    draw_panels(obj, PANELS, "Batch rows beside a service, by how they share its device", path)

"""The report of a run as files: every figure as JSON, and the picture."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

from rowen.demo.show.picture import Drawing, draw
from rowen.demo.show.report import Report, Run, held
from rowen.demo.show.world import DeviceRecord
from rowen.demo.traffic.excerpt import ATTRIBUTION
from rowen.demo.verdict.memory import PoolReading
from rowen.demo.verdict.riding import riding_spans


def write(run: Run, report: Report, folder: Path) -> None:
    """Writes `report.json` and, where a device served, `timeline.png`. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    value: dict[str, Any] = dataclasses.asdict(report) | {
        "passed": report.passed,
        "mode": run.mode,
        "objective": dataclasses.asdict(run.objective),
        "started": run.started,
        "seconds": run.seconds,
        "traffic": ATTRIBUTION,
        "outcomes": [dataclasses.asdict(outcome) for outcome in run.outcomes],
        "alone": [dataclasses.asdict(outcome) for outcome in run.alone],
        "pools": {
            "/".join(key): [_reading(reading) for reading in record.pool]
            for key, record in run.world.serving(run.service)
        },
    }
    (folder / "report.json").write_text(json.dumps(_without_nan(value), indent=1) + "\n", encoding="utf-8")
    for key, record in run.world.serving(run.service)[:1]:
        draw(_drawing("/".join(key), record, run), folder / "timeline.png")


def _drawing(device: str, record: DeviceRecord, run: Run) -> Drawing:
    return Drawing(
        start=run.started,
        end=run.started + run.seconds,
        device=device,
        outcomes=run.outcomes,
        held=held(record, run),
        ttft=run.objective.ttft,
        # Where jobs ride none of them takes anything of the pool.
        pool=() if record.rides else record.pool,
        riding=riding_spans(record.rides) if record.rides else None,
        source=ATTRIBUTION,
    )


def _reading(reading: PoolReading) -> dict[str, Any]:
    return {"at": reading.at, **reading.owners.to_wire(), "reclaimed": dataclasses.asdict(reading.reclaimed)}


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value

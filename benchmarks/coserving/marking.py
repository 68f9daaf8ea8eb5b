"""Has the engine of a benchmark mark what rides in it: vLLM calls `register` as a plugin of its own."""

import os
from functools import cache
from pathlib import Path
from typing import Any

from coserving.marks import MARKS_ENV, MarkWriter
from coserving.slowdowns import log_slowdowns

from rowen.crds.names import PYTHON_PATH_ENV
from rowen.demo.samples import SHAPE

_FOLDER, _DISTRIBUTION = "marking", "coserving_marking-0.dist-info"
_METADATA = "Metadata-Version: 2.1\nName: coserving-marking\nVersion: 0\n"
_ENTRY_POINTS = "[vllm.general_plugins]\ncoserving_marking = coserving.marking:register\n"


def marking(folder: Path, marks: Path, environment: dict[str, str]) -> dict[str, str]:
    """That environment of an engine's, with marks written from its start on into an empty file."""
    marks.unlink(missing_ok=True)
    distribution = folder / _FOLDER / _DISTRIBUTION
    distribution.mkdir(parents=True, exist_ok=True)
    (distribution / "METADATA").write_text(_METADATA)
    (distribution / "entry_points.txt").write_text(_ENTRY_POINTS)
    path = os.pathsep.join([str(folder / _FOLDER), environment[PYTHON_PATH_ENV]])
    return environment | {PYTHON_PATH_ENV: path, MARKS_ENV: str(marks)}


@cache
def register() -> None:
    """A unit of the work is a token in a layer, on the way forward or back; steps beside offline work are logged."""
    log_slowdowns()
    if MARKS_ENV not in os.environ:
        return
    from rowen.runtime.coserve.planning.deferral import Deferral
    from rowen.runtime.vllm.riding.tally import Tally

    writer = cache(lambda: MarkWriter(Path(os.environ[MARKS_ENV])))
    step, added, part, decide = Tally.step, Tally.added, Tally.part, Deferral.decide

    def stepped(tally: Any, load: Any, seconds: float, ridden_tokens: int) -> None:
        step(tally, load, seconds, ridden_tokens)
        writer().online_seconds += seconds
        # A window that has been through some layers before counts for the others.
        writer().worked(SHAPE.layers * load.ride_tokens)

    def lengthened(tally: Any, seconds: float) -> None:
        added(tally, seconds)
        writer().online_seconds -= seconds

    def worked(tally: Any, one: Any, seconds: float) -> None:
        part(tally, one, seconds)
        writer().worked(one.tokens)

    def decided(deferral: Any, waiting: Any) -> Any:
        decision = decide(deferral, waiting)
        writer().held += decision.hold
        return decision

    Tally.step, Tally.added, Tally.part = stepped, lengthened, worked  # type: ignore[method-assign]
    Deferral.decide = decided  # type: ignore[method-assign]

"""The benchmark of the predictions: its figures by value, and that worse predictions miss a bar."""

from collections.abc import Mapping
from dataclasses import replace

import prediction
import pytest

from rowen.scheduler.model.profile import Profile

KNOWN = {name: Profile(1000.0, 60.0, 0.0) for name in prediction.PARTS}


def cases(explained: float, promised: float, **others: float) -> dict[str, list[prediction.Case]]:
    """Windows that made 0.5, each foretold so much too high; simpler ways by 0.04 unless told."""
    simpler = {name: 0.5 + others.get(name, 0.04) for name in prediction.STRATEGIES}
    one = prediction.Case("conv", "tuner", 0.5, {**simpler, "figures": 0.5 + explained})
    promise = replace(one, predicted={"figures": 0.5 + promised, "minute_only": 0.6}, kept=promised < 0.05)
    apart = replace(one, predicted={"figures": 0.5, "no_alignment": 0.6})
    return {"explained": [one] * 2, "promised": [promise] * 2, "lockstep": [apart] * 2}


def told(found: Mapping[str, list[prediction.Case]]) -> tuple[dict[str, float], set[str]]:
    """Figures, and the bars that were missed."""
    made = prediction.told(found, KNOWN, 0)
    assert made["bars"].keys() == prediction.BARS.keys()
    missed = {name for name, bar in made["bars"].items() if bar["kept"] is not True}
    return {name: row["value"] for name, row in made["figures"].items()}, missed


@pytest.fixture(autouse=True)
def known_solo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "solo", lambda name, pool: 1000.0)


def test_errors_are_parts_of_what_was_measured() -> None:
    figures, missed = told(cases(0.02, 0.03))
    assert figures["mean_abs_error"] == pytest.approx(0.02)
    assert figures["relative_error"] == pytest.approx(0.04)
    assert figures["promise_relative_error"] == pytest.approx(0.06)
    assert figures["error_over_best_baseline"] == pytest.approx(-0.02)
    assert not missed


@pytest.mark.parametrize(
    ("found", "missed"),
    [
        (cases(0.051, 0.0, prior=0.2, idle_only=0.2, mean_memory=0.2), {"mean_abs_error", "relative_error"}),
        (cases(0.0, 0.051), {"promise_relative_error"}),
        (cases(0.02, 0.0, mean_memory=0.01), {"error_over_best_baseline"}),
    ],
)
def test_worse_predictions_miss_a_bar(found: Mapping[str, list[prediction.Case]], missed: set[str]) -> None:
    assert told(found)[1] == missed

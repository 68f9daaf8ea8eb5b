"""The metrics file: the mark of a complete job, and what a person is told."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from rowen.runtime.tuning.metrics import Metrics, read_metrics

METRICS = Metrics(
    digest="mine",
    steps=12,
    base_loss=3.0,
    adapter_loss=2.0,
    training_rows=16,
    held_out_rows=4,
    cut_rows=0,
    dropped_rows=0,
    training_losses=[3.0, 2.5],
    evaluations=[(6, 2.2), (12, 2.0)],
    best_step=None,
)


@pytest.mark.parametrize(
    ("cut", "dropped", "said"),
    [
        (0, 0, ""),
        (3, 0, "; 3 rows were cut: raise sequenceLength"),
        (0, 2, "; 2 rows left nothing to learn: raise sequenceLength"),
        (3, 2, "; 3 rows were cut; 2 rows left nothing to learn: raise sequenceLength"),
    ],
)
@pytest.mark.parametrize("held_out", [True, False])
def test_rows_that_did_not_fit_are_said_with_what_to_do(cut: int, dropped: int, said: str, held_out: bool) -> None:
    metrics = replace(METRICS, cut_rows=cut, dropped_rows=dropped)
    if not held_out:
        metrics = replace(metrics, base_loss=None, adapter_loss=None, held_out_rows=0)
    losses = "held-out loss 3.0000 (base) -> 2.0000 (adapter), " if held_out else ""
    kept = ", 4 held out" if held_out else ""
    assert metrics.sentence() == f"{losses}12 steps over 16 rows{kept}{said}"


def test_the_step_of_the_best_adapter_is_said() -> None:
    assert "2.0000 (adapter of step 6), " in replace(METRICS, best_step=6).sentence()


def test_rows_that_were_left_out_are_said_last() -> None:
    metrics = replace(METRICS, cut_rows=3, skipped_rows=1, skipped="data:3: not JSON")
    assert metrics.sentence().endswith(": raise sequenceLength; 1 malformed row was left out: data:3: not JSON")


def test_metrics_of_a_version_that_left_no_rows_out_are_read(tmp_path: Path) -> None:
    former = {key: value for key, value in asdict(METRICS).items() if not key.startswith("skipped")}
    (tmp_path / "metrics.json").write_text(json.dumps(former))
    assert read_metrics(tmp_path, "mine") == METRICS


def test_metrics_of_this_job_are_read(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text(json.dumps(asdict(METRICS)))
    assert read_metrics(tmp_path, "mine") == METRICS


FORMER = {key: value for key, value in asdict(METRICS).items() if key != "cut_rows"}


@pytest.mark.parametrize(
    "text",
    [
        None,
        json.dumps(FORMER | {"digest": "of a former version"}),
        json.dumps(FORMER),
        json.dumps(asdict(METRICS) | {"steps": "many"}),
        json.dumps(asdict(METRICS) | {"digest": "another"}),
        "[]",
        "{",
    ],
    ids=["none", "former", "former with this digest", "damaged", "another", "no object", "no JSON"],
)
def test_others_do_not_count_and_stay(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    if text is not None:
        path.write_text(text)
    assert read_metrics(tmp_path, "mine") is None
    assert (path.read_text() if path.exists() else None) == text

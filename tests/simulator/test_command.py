"""`rowen simulate`, as a user calls it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rowen.simulator.cli.app import app

SMALL = ["simulate", "--nodes", "3", "--hours", "0.5", "--processes", "0", "--first-jobs", "3"]


def test_it_writes_the_result_and_two_pictures(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "here"
    run = CliRunner().invoke(app, [*SMALL, "--output", str(folder), "--json"])
    assert run.exit_code == 0, run.output
    told = json.loads(run.stdout)
    assert json.loads((folder / "result.json").read_text()) == told
    assert told["figures"]["utilisation_gain_points"] > 0
    assert sum(told["device_seconds"][part] for part in ("online", "cooldown", "harvested", "idle")) == pytest.approx(
        told["device_seconds"]["total"]
    )
    for name in ("utilisation.png", "cdf.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")


def test_a_trace_in_the_plain_format(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_seconds,input_tokens,output_tokens\n0,500,20\n5,1000,40\n9,100,10\n")
    run = CliRunner().invoke(app, [*SMALL, "--trace", str(trace), "--load", "0.5"])
    assert run.exit_code == 0, run.output
    assert "utilisation gain points" in run.stdout


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--devices", "3", "--services", "2"], "--devices: 3 cannot be shared equally by --services 2"),
        (["--pass-seconds", "90"], "--pass-seconds: 90 is no multiple of --step-seconds 60"),
        (["--nodes", "200000"], "error: nodes: Input should be less than or equal to 100000"),
        (["--format", "azure"], "--format is of a --trace"),
        (["--device-memory", "much"], "--device-memory: 'much' is no quantity of bytes"),
        (["--device-memory", "0"], "memory_bytes: Input should be greater than or equal to 1"),
        (
            ["--device-memory", "60Gi"],
            "the engine's memory_bytes and pool_bytes are 64Gi together, a device has 60Gi",
        ),
        (["--trace", "none.csv"], "none.csv: a readable CSV file"),
        (["--jobs", "none.json"], "none.json: a JSON file"),
        (["--engine", "none.json"], "none.json"),
    ],
)
def test_a_mistake_is_one_line(options: list[str], told: str) -> None:
    run = CliRunner().invoke(app, [*SMALL, *options])
    assert run.exit_code == 1
    assert told in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1


def test_a_device_that_just_holds_the_engine() -> None:
    run = CliRunner().invoke(app, [*SMALL, "--device-memory", "64Gi", "--json"])
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout)["shape"]["memory_bytes"] == 64 << 30


def test_an_engine_larger_than_the_device_is_told(tmp_path: Path) -> None:
    path = tmp_path / "engine.json"
    path.write_text(json.dumps({"memory_bytes": 90 << 30}))
    run = CliRunner().invoke(app, [*SMALL, "--engine", str(path)])
    assert (run.exit_code, "are 134Gi together, a device has 80Gi" in run.stderr) == (1, True)


def test_an_unknown_constant_of_the_engine_is_named(tmp_path: Path) -> None:
    path = tmp_path / "engine.json"
    path.write_text('{"decode_second": 0.1}')
    run = CliRunner().invoke(app, [*SMALL, "--engine", str(path)])
    assert run.exit_code == 1
    assert "decode_second: Extra inputs" in run.stderr

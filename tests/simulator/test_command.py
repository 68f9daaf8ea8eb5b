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
        (["--nodes", "200000"], "error: --nodes: it should be less than or equal to 100000, not 200000"),
        (["--format", "azure"], "--format is of a --trace"),
        (["--device-memory", "much"], "--device-memory: 'much' is no quantity of bytes"),
        (["--device-memory", "0"], "error: --device-memory (bytes): it should be greater than or equal to 1, not 0"),
        (
            ["--device-memory", "60Gi"],
            "the engine's memory_bytes and pool_bytes are 64Gi together, a device has 60Gi",
        ),
        (["--trace", "none.csv"], "none.csv: a readable CSV file"),
        (["--jobs", "none.json"], "error: none.json: a JSON file was expected: No such file or directory"),
        (["--engine", "none.json"], "error: none.json: a JSON file was expected: No such file or directory"),
    ],
)
def test_a_mistake_is_one_line(options: list[str], told: str) -> None:
    run = CliRunner().invoke(app, [*SMALL, *options])
    assert run.exit_code == 1
    assert told in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1


def test_a_device_that_just_holds_the_engine(tmp_path: Path) -> None:
    path = tmp_path / "jobs.json"
    path.write_text('[{"name": "a", "memory_bytes": 0}]')
    run = CliRunner().invoke(app, [*SMALL, "--device-memory", "64Gi", "--jobs", str(path), "--json"])
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout)["shape"]["memory_bytes"] == 64 << 30


def test_jobs_that_no_node_can_hold_are_told_before_anything_runs(tmp_path: Path) -> None:
    """A job that fills what the engine leaves is none of them."""
    classes = [
        {"name": "wide", "devices": 3},
        {"name": "fits", "devices": 2, "memory_bytes": 16 << 30},
        {"name": "large", "memory_bytes": 32 << 30},
    ]
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps(classes))
    run = CliRunner().invoke(app, [*SMALL, "--devices", "2", "--jobs", str(path)])
    assert (run.exit_code, run.stderr.splitlines()) == (
        1,
        [
            f"error: {path}, job class 1 (wide): devices: at most 2, as a node has (--devices), was expected, not 3",
            f"error: {path}, job class 3 (large): memory_bytes: at most 17179869184 (16Gi), as the engine leaves on "
            "a device, was expected, not 34359738368 (32Gi)",
        ],
    )
    run = CliRunner().invoke(app, [*SMALL, "--device-memory", "64Gi"])
    assert [line.partition(": memory_bytes: ")[0] for line in run.stderr.splitlines()] == [
        "error: the default jobs, job class 1 (batch)",
        "error: the default jobs, job class 2 (tune)",
    ]


def test_that_no_job_arrived_is_told_first() -> None:
    told = "No job arrived, so nothing was harvested: "
    run = CliRunner().invoke(app, [*SMALL, "--demand", "0", "--first-jobs", "0"])
    assert run.exit_code == 0, run.output
    assert run.stdout.startswith(told)
    run = CliRunner().invoke(app, [*SMALL, "--demand", "0", "--first-jobs", "1"])
    assert run.exit_code == 0, run.output
    assert told not in run.stdout


def test_an_engine_larger_than_the_device_is_told(tmp_path: Path) -> None:
    path = tmp_path / "engine.json"
    path.write_text(json.dumps({"memory_bytes": 90 << 30}))
    run = CliRunner().invoke(app, [*SMALL, "--engine", str(path)])
    assert (run.exit_code, "are 134Gi together, a device has 80Gi" in run.stderr) == (1, True)


def refused(tmp_path: Path, option: str, text: str) -> list[str]:
    """The lines that are told of a file, without what each begins with: that it is an error, and the file."""
    path = tmp_path / "given.json"
    path.write_text(text)
    run = CliRunner().invoke(app, [*SMALL, option, str(path)])
    assert run.exit_code == 1
    lines = run.stderr.strip().splitlines()
    assert all(line.startswith(f"error: {path}") for line in lines)
    return [line.removeprefix(f"error: {path}") for line in lines]


def test_an_unknown_constant_of_the_engine_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    (line,) = refused(tmp_path, "--engine", '{"decode_second": 0.1}')
    assert line.startswith(": decode_second: there is no such field; there are prefill_seconds, prefill_tokens_per")
    assert refused(tmp_path, "--engine", "[]") == [": an object with fields was expected, not []"]


def test_each_fault_of_the_jobs_is_a_line_with_the_class_and_the_field(tmp_path: Path) -> None:
    classes = [
        {"name": "a", "mean_hours": 0, "slas": [None, 2]},
        {"name": "b"},
        {"devices": "many", "curve": [[0, 0.1], [5]]},
        {"name": "b"},
        7,
        {"name": "c", "curve": [[0, 0.5], [9, 0.1]]},
        {"name": "", "slas": 0.3, "curve": [[0, 0.5, 1]]},
        {"name": "d", "slas": [2]},
        {"name": "e", "slas": []},
    ]
    assert refused(tmp_path, "--jobs", json.dumps(classes)) == [
        ", job class 1 (a): mean_hours: it should be greater than 0, not 0",
        ", job class 1 (a): slas[1]: it should be less than or equal to 1, not 2",
        ", job class 3: name: it is missing",
        ', job class 3: devices: it should be a valid integer, unable to parse string as an integer, not "many"',
        ", job class 3: curve[1][1]: it is missing",
        ", job class 4 (b): name: a name of its own was expected, an earlier class has this one",
        ", job class 5: an object with fields was expected, not 7",
        ", job class 6 (c): curve: at least one point, with ascending bytes and fractions that never fall",
        ', job class 7 (): name: at least 1 character was expected, not ""',
        ", job class 7 (): curve[0]: at most 2 items were expected, not [0, 0.5, 1]",
        ", job class 7 (): slas: a list was expected, not 0.3",
        ", job class 8 (d): slas[0]: it should be less than or equal to 1, not 2",
        ", job class 9 (e): slas: at least 1 item was expected, not []",
    ]


def test_what_is_no_json_is_told_with_its_line(tmp_path: Path) -> None:
    for option in ("--jobs", "--engine"):
        (line,) = refused(tmp_path, option, '[\n  {"name": "a",}\n]')
        assert line.startswith(", line 2, column ")
        assert ": JSON was expected: " in line
    assert refused(tmp_path, "--jobs", "{}") == [": a list of job classes was expected"]

"""Readers: what they take, and that what they refuse names the file, the line and what was expected."""

import json
from pathlib import Path

import numpy as np
import pytest

from rowen.simulator.jobs import read_classes
from rowen.simulator.json_file import InputError
from rowen.simulator.traces import alibaba, azure, plain, servegen
from rowen.simulator.traces.reading import TraceError

PLAIN = "arrival_seconds,input_tokens,output_tokens\n"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def file(folder: Path, text: str, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_the_plain_format_is_sorted_and_begins_at_zero(tmp_path: Path) -> None:
    found = plain.read(file(tmp_path, PLAIN + "12.5,30,3\n\n10,10,1\n11,20,2\n"))
    assert found.arrivals.tolist() == [0.0, 1.0, 2.5]
    assert found.inputs.tolist() == [10, 20, 30]
    assert found.outputs.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "line 1: the header arrival_seconds,input_tokens,output_tokens was expected; the file is empty"),
        (PLAIN, "at least one request was expected"),
        (PLAIN + "1,2,3\n", "requests over at least a second were expected, not over 0 s"),
        (PLAIN + "1,2,3\n1.9,2,3\n", "requests over at least a second were expected, not over 0.9 s"),
        (AZURE, "not TIMESTAMP,ContextTokens,GeneratedTokens; --format azure reads this file"),
        ("a,b,c\n1,2,3\n", "line 1: the header"),
        (PLAIN + "1,2\n", "line 2: 3 columns were expected"),
        (PLAIN + "1,2,3\nx,2,3\n", "line 3: arrival_seconds: a number from 0"),
        (PLAIN + "nan,2,3\n", "line 2: arrival_seconds"),
        (PLAIN + "inf,2,3\n", "line 2: arrival_seconds"),
        (PLAIN + "-1,2,3\n", "line 2: arrival_seconds"),
        (PLAIN + "1,-2,3\n", "line 2: input_tokens: a whole number"),
        (PLAIN + "1,2,3.5\n", "line 2: output_tokens: a whole number"),
        (PLAIN + "1,2,99999999999\n", "line 2: output_tokens"),
    ],
)
def test_a_bad_plain_file_is_told(tmp_path: Path, text: str, told: str) -> None:
    path = file(tmp_path, text)
    with pytest.raises(TraceError) as caught:
        plain.read(path)
    assert str(path) in str(caught.value)
    assert told in str(caught.value)


def test_a_file_that_is_not_there_or_not_text_is_told(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="a readable CSV file"):
        plain.read(tmp_path / "none.csv")
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TraceError, match="a readable CSV file in UTF-8"):
        plain.read(binary)


def test_azure_times_have_seven_digits(tmp_path: Path) -> None:
    rows = "2023-11-16 18:17:05.0319600,3180,8\n2023-11-16 18:17:03.5319600,110,27\n"
    found = azure.read(file(tmp_path, AZURE + rows))
    assert found.arrivals.tolist() == pytest.approx([0.0, 1.5])
    assert found.inputs.tolist() == [110, 3180]


def test_a_bad_azure_time_is_told(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"trace\.csv, line 2: TIMESTAMP"):
        azure.read(file(tmp_path, AZURE + "yesterday,1,1\n"))


def chunk(folder: Path, number: int, trace: str, dataset: object | None) -> None:
    file(folder, trace, f"chunk-{number}-trace.csv")
    if dataset is not None:
        file(folder, json.dumps(dataset), f"chunk-{number}-dataset.json")


LENGTHS = {"0": {"input_tokens": "{100: 0.5, 200: 0.5}", "output_tokens": "{7: 1.0, 9: 0.0}"}}


def test_servegen_reads_the_clients_with_traffic_and_lengths(tmp_path: Path) -> None:
    chunk(tmp_path, 0, "0,2.0,1.0,Gamma,1.0,0.5\n600,0,0,,,\n", LENGTHS)
    chunk(tmp_path, 1, "0,2.0,1.0,Weibull,1.0,0.5\n", None)
    chunk(tmp_path, 2, "0,0,0,,,\n", LENGTHS)
    chunk(tmp_path, 10, "0,1.0,1.0,Weibull,1.0,1.0\n", {**LENGTHS, "600": {"input_tokens": "{}"}})
    clients = servegen.read(tmp_path)
    assert [client.mean_rate for client in clients] == [1.0, 1.0]
    assert [client.windows[0].family for client in clients] == ["Gamma", "Weibull"]
    given, made = clients[0].lengths_at(5000.0)
    drawn = given.draw(4000, np.random.default_rng(0))
    assert set(drawn.tolist()) == {100.0, 200.0}
    assert drawn.mean() == pytest.approx(150.0, abs=5)
    assert set(made.draw(50, np.random.default_rng(0)).tolist()) == {7.0}


@pytest.mark.parametrize(
    ("row", "shape", "scale"),
    [
        ("0,2.0,1.0,Gamma,0.25,99", 0.25, 2.0),
        ("0,2.0,1.0,Gamma,4,1e-9", 4.0, 0.125),
        # The mean of Weibull's times is scale x gamma(1 + 1 / shape): gamma(3) = 2, gamma(2) = 1.
        ("0,2.0,1.0,Weibull,0.5,7", 0.5, 0.25),
        ("0,0.1,1.0,Weibull,1,7", 1.0, 10.0),
    ],
)
def test_the_rate_counts_and_not_a_scale_that_disagrees(tmp_path: Path, row: str, shape: float, scale: float) -> None:
    chunk(tmp_path, 0, f"{row}\n", LENGTHS)
    (window,) = servegen.read(tmp_path)[0].windows
    assert (window.shape, window.scale) == (shape, pytest.approx(scale))


NESTED = "[" * 100_000


def test_json_that_is_nested_too_deeply_is_told(tmp_path: Path) -> None:
    chunk(tmp_path, 0, "0,2.0,1.0,Gamma,1.0,0.5\n", LENGTHS)
    file(tmp_path, NESTED, "chunk-0-dataset.json")
    with pytest.raises(TraceError, match="a JSON object was expected"):
        servegen.read(tmp_path)
    with pytest.raises(InputError, match="a JSON file was expected"):
        read_classes(file(tmp_path, NESTED, "jobs.json"))


@pytest.mark.parametrize(
    ("trace", "dataset", "told"),
    [
        ("0,1,1,Weibull,0.001,1\n", LENGTHS, "line 1: 0.001 for parameter_1 of Weibull cannot have a mean of 1 / 1"),
        ("0,1e-320,1,Gamma,1,1\n", LENGTHS, "line 1: 1 for parameter_1 of Gamma cannot have a mean"),
        ("0,1,1,Gamma,1,1\n", {"0": {"input_tokens": "{1: 1e308, 2: 1e308}", "output_tokens": "{1: 1}"}}, "not all 0"),
        ("0,1,1,Gamma,1,1\n", {"0": {"input_tokens": "{1: 1e999}", "output_tokens": "{1: 1}"}}, "not all 0"),
        ("0,1,1,Gamma,1\n", LENGTHS, "line 1: 6 columns"),
        ("0,1,1,Poisson,1,1\n", LENGTHS, "line 1: family: Gamma, Weibull or nothing"),
        ("0,1,1,Gamma,0,1\n", LENGTHS, "line 1: parameters of Gamma above 0"),
        ("0,1,1,Gamma,1,1\n1800,1,1,Gamma,1,1\n", LENGTHS, "line 2: window_start 600 was expected"),
        ("", LENGTHS, "at least one window"),
        ("0,1,1,Gamma,1,1\n", [], "an object with a window's start"),
        ("0,1,1,Gamma,1,1\n", {"0": {"input_tokens": "__import__('os')", "output_tokens": "{1: 1}"}}, "input_tokens"),
        ("0,1,1,Gamma,1,1\n", {"0": {"input_tokens": "{1: 1, x: 2}", "output_tokens": "{1: 1}"}}, "input_tokens"),
        ("0,1,1,Gamma,1,1\n", {"0": {"input_tokens": "{1: 0}", "output_tokens": "{1: 1}"}}, "not all 0"),
        ("0,1,1,Gamma,1,1\n", {"0": {"input_tokens": "{1: 1}", "output_tokens": "{99999999999: 1}"}}, "at most"),
        ("0,1,1,Gamma,1,1\n", None, "at least one pair"),
    ],
)
def test_a_bad_client_is_told(tmp_path: Path, trace: str, dataset: object, told: str) -> None:
    chunk(tmp_path, 3, trace, dataset)
    with pytest.raises(TraceError) as caught:
        servegen.read(tmp_path)
    assert told in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def usage(folder: Path, duty: str, memory: str) -> None:
    file(folder, "value,timestamp_anon,container_ip\n" + duty, alibaba.DUTY)
    file(folder, "timestamp_anon,value,container_ip\n" + memory, alibaba.MEMORY)


def test_alibaba_joins_duty_and_memory_by_container(tmp_path: Path) -> None:
    usage(
        tmp_path,
        "50,1060,a\n100,1000,a\n0,1120,a\n10,1000,only-duty\n",
        "1000,30,a\n1060,40,a\n1120,50,a\n1000,1,only-memory\n",
    )
    (found,), period = alibaba.read(tmp_path)
    assert period == 180.0
    assert found.times.tolist() == [0.0, 60.0, 120.0]
    assert found.duty.tolist() == [1.0, 0.5, 0.0]
    assert found.memory.tolist() == [30.0, 40.0, 50.0]
    assert found.lengths.tolist() == [60.0, 60.0, 60.0]


@pytest.mark.parametrize(
    ("duty", "memory", "told"),
    [
        ("101,1,a\n", "1,1,a\n", "line 2: value (percent): a number from 0 to 100"),
        ("1,x,a\n", "1,1,a\n", "line 2: timestamp_anon"),
        ("1,1,\n", "1,1,a\n", "line 2: container_ip"),
        ("1,1,a\n", "1,1\n", "line 2: 3 columns"),
        ("1,1,a\n", "1,1,b\n", "containers that are both"),
        ("1,1,a\n1,1.1,a\n", "1,1,a\n", "samples over at least a second were expected, not 0.2 s"),
    ],
)
def test_a_bad_usage_trace_is_told(tmp_path: Path, duty: str, memory: str, told: str) -> None:
    usage(tmp_path, duty, memory)
    with pytest.raises(TraceError) as caught:
        alibaba.read(tmp_path)
    assert told in str(caught.value)

"""What is said of a file before anything runs."""

import io
import json
import subprocess
import sys
from typing import Any

import pytest
import yaml

from rowen.crds.base import quantity_bytes
from rowen.crds.generate import REPOSITORY
from rowen.gateway.batches import _READ_AT_ONCE
from rowen.gateway.rows import Fault, FaultsError, Rows, read_rows

ENDPOINT = "/v1/completions"
MOST_FAULTS, MOST_ID_CHARACTERS, MOST_LINE_BYTES = 20, 512, 16 * 2**20


def line(custom_id: object = "a", **changes: Any) -> str:
    row = {"custom_id": custom_id, "method": "POST", "url": ENDPOINT, "body": {"model": "m"}} | changes
    return json.dumps(row)


def read(*lines: str, most: int = 10) -> Rows:
    return read_rows(io.BytesIO("\n".join(lines).encode()), ENDPOINT, most)


def faults(*lines: str, most: int = 10) -> list[Fault]:
    with pytest.raises(FaultsError) as caught:
        read(*lines, most=most)
    assert str(caught.value) == "; ".join(map(str, caught.value.faults))
    return caught.value.faults


def test_a_batch() -> None:
    assert read(line("a"), "", line("b"), "  ") == Rows(2, "m")
    assert read(*(line(str(n)) for n in range(10))).count == 10
    assert read(line("x" * MOST_ID_CHARACTERS), line("b", body={"model": "m", "stream": False})).count == 2


def test_blank_lines_are_counted_as_lines_and_not_as_rows() -> None:
    (fault,) = faults(line("a"), "", line("a"))
    assert fault == Fault(3, "duplicate_custom_id", "custom_id was used on line 1 already", "custom_id")
    assert str(fault) == "line 3: custom_id was used on line 1 already"
    assert fault.to_wire() == {
        "code": "duplicate_custom_id", "line": 3, "message": fault.message, "param": "custom_id"
    }  # fmt: skip


def test_without_rows_it_is_none() -> None:
    for nothing in ([], ["", " "]):
        (fault,) = faults(*nothing)
        assert (fault.line, fault.code, str(fault)) == (None, "empty_file", "the file has no rows")


@pytest.mark.parametrize("wrong", [None, 1, "", "x" * (MOST_ID_CHARACTERS + 1)])
def test_a_custom_id_is_a_text_of_some_length(wrong: object) -> None:
    assert [(fault.line, fault.code) for fault in faults(line("a"), line(wrong))] == [(2, "invalid_custom_id")]


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({"method": "post"}, ["invalid_method"]),
        ({"method": "GET", "url": "/v1/score"}, ["invalid_method", "invalid_url"]),
        ({"body": None}, ["invalid_body"]),
        ({"body": {"model": ""}}, ["missing_model"]),
        ({"body": {"model": 1, "stream": True}}, ["invalid_body", "missing_model"]),
        ({"body": {"model": "other"}}, ["mismatched_model"]),
    ],
)
def test_each_fault_of_a_row_is_told(changes: dict[str, Any], codes: list[str]) -> None:
    found = faults(line("a"), line("b", **changes))
    assert [fault.code for fault in found] == codes
    assert {fault.line for fault in found} == {2}


@pytest.mark.parametrize("text", ["{", "[1]", "1", '"a"', "[" * 200_000])
def test_a_line_is_an_object(text: str) -> None:
    assert [(fault.line, fault.code) for fault in faults(text, line())] == [(1, "invalid_json_line")]


class Counted(io.BytesIO):
    """Counts the lines that were asked for."""

    asked = 0

    def readline(self, size: int | None = -1, /) -> bytes:
        self.asked += 1
        return super().readline(size)


@pytest.mark.parametrize(("text", "asked"), [(line, 4), ("{", MOST_FAULTS)])
def test_no_more_is_read_than_is_told_of(text: Any, asked: int) -> None:
    lines = [text if isinstance(text, str) else text(str(n)) for n in range(100)]
    file = Counted("\n".join(lines).encode())
    with pytest.raises(FaultsError):
        read_rows(file, ENDPOINT, 3 if asked == 4 else 1000)
    assert file.asked == asked


def test_the_rows_are_counted() -> None:
    found = faults(*(line(str(n)) for n in range(9)), most=3)
    assert [(fault.line, fault.code) for fault in found] == [(4, "too_many_rows")]


def test_not_all_faults_are_told() -> None:
    found = faults(*["{"] * (MOST_FAULTS + 10), most=1000)
    assert [fault.line for fault in found] == list(range(1, MOST_FAULTS + 1))
    twice = line("x", method="GET", url="u", body=0)
    assert len(faults(*[twice] * MOST_FAULTS, most=1000)) == MOST_FAULTS


def test_a_long_name_is_told_in_part() -> None:
    (fault,) = faults(line("a", body={"model": "x" * 100}), line("b"))
    assert f"'{'x' * 64}'" in fault.message


def test_what_is_no_json_is_told_by_its_place_in_the_line() -> None:
    (fault,) = faults(line(), '{"custom_id": 1')
    assert (fault.line, fault.message) == (2, "the line is not JSON: Expecting ',' delimiter at character 16")
    (fault,) = faults(line(), '{"custom_id": "a')
    assert fault.message == "the line is not JSON: Unterminated string starting at character 15"


def test_a_line_is_not_read_for_ever() -> None:
    longest = line("a").ljust(MOST_LINE_BYTES)
    assert read(longest).count == 1
    (fault,) = faults(f"{longest} ", line("b"))
    assert (fault.line, fault.code) == (1, "line_too_long")


LONGEST = r"""
import io, re
import rowen.gateway.__main__
from rowen.gateway.rows import MOST_LINE_BYTES, read_rows
peak = lambda: 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read())[1])
head = b'{"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"model": "m", "x": [{}'
line = head + b",{}" * ((MOST_LINE_BYTES - len(head) - 4) // 3) + b"]}}"
before = peak()
assert read_rows(io.BytesIO(line), "/v1/completions", 1).count == 1
print(before, peak())
"""


def test_the_longest_lines_fit_into_the_gateways_memory() -> None:
    """Of a line of objects that are empty: a caller could end the gateway with it."""
    told = subprocess.run([sys.executable, "-c", LONGEST], capture_output=True, text=True, timeout=120, check=True)
    before, peak = map(int, told.stdout.split())
    values = yaml.safe_load((REPOSITORY / "charts/rowen/values.yaml").read_text())
    assert peak > before
    assert before + _READ_AT_ONCE * (peak - before) < quantity_bytes(
        values["batchApi"]["resources"]["limits"]["memory"]
    )

import json

import pytest

from rowen.demo.evidence import batch_rows, losses

NAMES = [f"request-{number}" for number in range(4)]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def requests(tmp_path):
    return write(tmp_path / "requests.jsonl", [{"custom_id": name} for name in NAMES])


def result(name, error=None):
    return {"custom_id": name, "response": {}, "error": error}


def test_every_row_once(requests, tmp_path):
    output = write(tmp_path / "results.jsonl", [result(name) for name in reversed(NAMES)])
    assert batch_rows(requests, output) == {
        "input_rows": 4,
        "output_rows": 4,
        "missing": 0,
        "doubled": 0,
        "unknown": 0,
        "failed_rows": 0,
    }


def test_an_answer_may_have_characters_that_end_lines_of_a_text(requests, tmp_path):
    output = tmp_path / "results.jsonl"
    row = result(NAMES[0]) | {"response": "\u2028\x85"}
    output.write_text(json.dumps(row, ensure_ascii=False) + "\n")
    counts = batch_rows(requests, output)
    assert (counts["output_rows"], counts["unknown"]) == (1, 0)


def test_faults_are_counted_apart(requests, tmp_path):
    output = write(
        tmp_path / "results.jsonl", [result(NAMES[0]), result(NAMES[0]), result("other"), result(NAMES[1], {"code": 1})]
    )
    with output.open("a") as file:
        file.write('{"custom_id": "reque')
    found = batch_rows(requests, output)
    assert (found["missing"], found["doubled"], found["unknown"], found["failed_rows"]) == (2, 1, 2, 1)


def test_no_output_is_all_missing(requests, tmp_path):
    assert batch_rows(requests, tmp_path / "results.jsonl")["missing"] == 4


def test_losses(tmp_path):
    assert losses(tmp_path) == {}
    (tmp_path / "metrics.json").write_text(json.dumps({"base_loss": 2.0, "adapter_loss": 1.0, "steps": 3}))
    assert losses(tmp_path) == {"base_loss": 2.0, "adapter_loss": 1.0}

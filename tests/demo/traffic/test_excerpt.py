import pytest

from rowen.demo.traffic.excerpt import EXCERPT, EXCERPT_SECONDS, TraceRow, load, parse

HEADER = "arrival_seconds,context_tokens,generated_tokens"


def test_the_excerpt_is_what_its_readme_says():
    rows = load()
    assert len(rows) == 764
    assert rows[0] == TraceRow(5.340, 1295, 7)
    assert rows[0].arrival >= 0
    assert rows[-1].arrival < EXCERPT_SECONDS
    assert EXCERPT.stat().st_size < 200_000


def test_the_excerpt_is_bursty():
    per_window = [0] * int(EXCERPT_SECONDS // 5)
    for row in load():
        per_window[int(row.arrival // 5)] += 1
    assert per_window.count(0) >= 10
    assert max(per_window) > 4 * sum(per_window) / len(per_window)


def test_the_licence_is_beside_the_excerpt():
    text = (EXCERPT.parent / "README.md").read_text()
    assert "CC BY 4.0" in text
    assert "Azure LLM inference trace 2023" in text


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "line 1"),
        (["when,in,out"], "line 1"),
        ([HEADER, "1.0,5"], "line 2"),
        ([HEADER, "1.0,5,2", "x,5,2"], "line 3"),
        ([HEADER, "1.0,5,2", "0.5,5,2"], "line 3.*before"),
        ([HEADER, "1.0,0,2"], "line 2.*above zero"),
        ([HEADER, "-1.0,5,2"], "line 2.*before"),
    ],
)
def test_a_malformed_excerpt_is_refused_by_line(lines, message):
    with pytest.raises(ValueError, match=message):
        parse(lines)

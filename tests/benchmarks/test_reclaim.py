import contextlib
import json

import pytest
import reclaim
from reclaim import HUGE_PAGES, huge_pages, run
from selection import Selection


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(reclaim, "HELD", 4)
    monkeypatch.setattr(reclaim, "COUNTS", (1, 4))


def test_it_takes_real_memory_from_a_process_for_another():
    before = HUGE_PAGES.read_text()
    printed = json.loads(json.dumps(run(2, 0, Selection({}, {}, {}))))
    figures, repeats = printed["figures"], printed["repeats"]
    assert before == HUGE_PAGES.read_text()
    assert figures["start_ms_p99"]["value"] > 0
    for count in (1, 4):
        start, first, mapped = (
            figures[f"{kind}_ms_p99_4kib_{count}"]["value"] for kind in ("start", "first", "mapped")
        )
        assert start > 0
        assert 0 < first < mapped
        assert max(repeats["4kib"][str(count)]["start_ms"]) == figures[f"start_ms_p99_4kib_{count}"]["value"]
    assert sum(count for _, count in repeats["jitter"]) > 0


def test_without_huge_pages_it_says_why(monkeypatch, tmp_path):
    refusing = tmp_path / "nr_hugepages"
    refusing.write_text("0\n")
    monkeypatch.setattr(reclaim, "HUGE_PAGES", refusing)
    with huge_pages(4) as refused:
        assert refused is None
        assert refusing.read_text() == "4"
        refusing.write_text("3")
    assert refusing.read_text() == "0\n"
    monkeypatch.setattr(reclaim, "huge_pages", lambda _: contextlib.nullcontext("3 of 4 huge pages"))
    losses = {"losses": {"2pm_2pct": [{"fifo": 0.5}]}}
    selection = Selection({"choose_ms_p99": (1.5, "ms")}, {"fifo": {"loss": (0.5, "fraction")}}, losses)
    found = run(1, 0, selection)
    figures = found["figures"]
    assert figures["choose_ms_p99"] == {"value": 1.5, "unit": "ms"}
    assert found["baselines"]["fifo"] == {"loss": {"value": 0.5, "unit": "fraction"}}
    assert found["repeats"]["losses"] == losses["losses"]
    assert figures["start_ms_p99_2mib_4"] == {"value": None, "unit": "ms", "reason": "3 of 4 huge pages"}
    assert figures["start_ms_p99"] == figures["start_ms_p99_4kib_4"]

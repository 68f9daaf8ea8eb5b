"""Names that sort by time, and that tell what belongs to what."""

import pytest

from rowen.gateway.ids import (
    batch_id,
    file_id,
    job_name,
    made_at,
    new_stem,
    read_batch,
    read_file,
    read_job,
    result_name,
)

STEM = "0" * 26 + "a"


def test_later_ones_sort_behind_and_none_is_like_another() -> None:
    times = [0.0, 1.0, 1.001, 1_800_000_000.0, 4_000_000_000.0]
    stems = [new_stem(time) for time in times]
    assert stems == sorted(stems)
    assert [made_at(stem) for stem in stems] == [0, 1, 1, 1_800_000_000, 4_000_000_000]
    assert {len(stem) for stem in stems} == {27}
    assert len({new_stem(1.0) for _ in range(100)}) == 100


def test_what_is_written_is_read() -> None:
    assert (batch_id(STEM), job_name(STEM)) == (f"batch_{STEM}", f"batch-{STEM}")
    assert (read_batch(batch_id(STEM)), read_job(job_name(STEM))) == (STEM, STEM)
    assert read_file(file_id(STEM)) == (STEM, None)
    assert read_file(file_id(STEM, "output")) == (STEM, "output")
    assert read_file(file_id(STEM, "errors")) == (STEM, "errors")
    assert result_name(STEM, "output") == f"batch_{STEM}_output.jsonl"
    assert result_name(STEM, "errors") == f"batch_{STEM}_error.jsonl"


@pytest.mark.parametrize("text", ["", STEM, f"x-{STEM}", f"file-{STEM[1:]}", f"file-{STEM}-other", f"file-{STEM}\n"])
def test_anything_else_is_none(text: str) -> None:
    assert (read_file(text), read_batch(text), read_job(text)) == (None, None, None)
    assert read_batch(text.replace("file-", "batch_")) is None
    assert read_job(text.replace("file-", "batch-")) is None

"""A record names one process for good: a reused pid is a stranger."""

import subprocess
import sys
from pathlib import Path

import pytest

from rowen.cluster.process import process
from rowen.cluster.process.process import ProcessRecord


def fake_proc(folder: Path, *, state: str = "S", ticks: int = 77, boot: str = "boot-a") -> Path:
    (folder / "42").mkdir(parents=True, exist_ok=True)
    fields = " ".join(["1"] * 18)
    (folder / "42/stat").write_text(f"42 (a (very) odd name) {state} {fields} {ticks} 0 0\n")
    (folder / "sys/kernel/random").mkdir(parents=True, exist_ok=True)
    (folder / "sys/kernel/random/boot_id").write_text(f"{boot}\n")
    return folder


def test_the_name_of_a_program_may_hold_brackets(tmp_path: Path) -> None:
    proc = fake_proc(tmp_path)
    assert process.record(42, "d", proc) == ProcessRecord(pid=42, start_ticks=77, boot="boot-a", digest="d")


@pytest.mark.parametrize(
    ("change", "expected"),
    [({}, True), ({"ticks": 78}, False), ({"boot": "boot-b"}, False), ({"state": "Z"}, False)],
)
def test_alive_means_the_same_process(tmp_path: Path, change: dict[str, object], expected: bool) -> None:
    known = process.record(42, proc=fake_proc(tmp_path))
    assert process.alive(known, fake_proc(tmp_path, **change)) is expected  # type: ignore[arg-type]


def test_a_process_that_is_gone_is_not_alive(tmp_path: Path) -> None:
    proc = fake_proc(tmp_path)
    assert not process.alive(ProcessRecord(pid=43, start_ticks=77, boot="boot-a"), proc)


def test_records_survive_the_disk_and_rubbish_is_no_record(tmp_path: Path) -> None:
    known = ProcessRecord(pid=1, start_ticks=2, boot="b", digest="d")
    known.save(tmp_path / "a.json")
    assert process.load(tmp_path / "a.json") == known
    (tmp_path / "a.json").write_text("{")
    assert process.load(tmp_path / "a.json") is None
    assert process.load(tmp_path / "none.json") is None


def test_stop_ends_a_process_that_ignores_the_polite_signal() -> None:
    program = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        process.stop(process.record(child.pid), grace=0.1)
        assert child.wait(timeout=10) == -9


def test_stop_leaves_a_stranger_alone() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        mine = process.record(child.pid)
        process.stop(mine.model_copy(update={"start_ticks": mine.start_ticks - 1}), grace=0.1)
        assert child.poll() is None
        child.kill()

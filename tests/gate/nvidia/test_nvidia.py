"""The `nvidia` gate library without a GPU: it learns channels from ioctls that a FAKE of the driver answers."""

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gate.nvidia import rm_calls
from gate.nvidia.rm_calls import CHANNEL, COMPUTE, COPY, CTL_FD, alloc, client, context, control, free, group
from gate.rig import Rig, Tenant, until
from gpu import trace

from rowen.node_agent.native import library_path

ROOT = Path(__file__).parents[3]
OWNER = 0xC1D00001
GPU = library_path("librowen_nvidia")


def fake_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fake, built by the compiler that built the library."""
    made = tmp_path_factory.mktemp("fake") / "fake_rm.so"
    compiler = sysconfig.get_config_var("CC").split()[0]
    source = Path(__file__).parent / "fake_rm.c"
    include = f"-I{ROOT / 'node_agent/native'}"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", include, str(source), "-o", str(made)], check=True, timeout=60)
    return made


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_driver(tmp_path_factory)


class Process:
    """A process that makes RM calls in front of the library, which has the fake behind it."""

    def __init__(self, fake: Path, folder: Path, **extra: str) -> None:
        self.folder = folder
        self.log = folder / "log"
        self._files = 0
        self._process = subprocess.Popen(
            [sys.executable, rm_calls.__file__, str(GPU)],
            env={**environment(fake, self.log), **extra},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, line: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def make(self, *calls: trace.Call) -> None:
        self._files += 1
        self.ask(f"replay {rm_calls.write(self.folder / f'calls-{self._files}', list(calls))}")

    def channels(self) -> list[dict[str, int]]:
        return list(self.ask("channels"))

    def switched(self) -> list[list[str]]:
        return [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


def environment(fake: Path, log: Path) -> dict[str, str]:
    path = os.pathsep.join(map(str, (ROOT / "benchmarks", ROOT / "tests")))
    return {**os.environ, "LD_PRELOAD": f"{GPU}:{fake}", "FAKE_RM_LOG": str(log), "PYTHONPATH": path}


@pytest.fixture
def make_process(fake: Path, tmp_path: Path) -> Iterator[Callable[..., Process]]:
    made: list[Process] = []

    def make(**extra: str) -> Process:
        made.append(Process(fake, tmp_path, **extra))
        return made[-1]

    yield make
    for process in made:
        process.end()


@pytest.fixture
def process(make_process: Callable[..., Process]) -> Process:
    return make_process()


def test_the_channels_of_a_context_are_known_with_group_engine_and_descriptor(process: Process) -> None:
    process.make(*context())
    found = process.channels()
    assert len(found) == 20
    computing = [entry for entry in found if entry["engine"] == 1]
    assert len(computing) == 8
    assert computing[0] == {
        "client": OWNER, "subdevice": 0x5C000002, "group": 0x5C000100, "channel": 0x5C000101, "kind": CHANNEL,
        "engine": 1, "fd": CTL_FD, "compute": COMPUTE, "copy": 0,
    }  # fmt: skip
    assert {entry["engine"] for entry in found if entry["copy"] == COPY} == {11, 12, 13}


@pytest.mark.parametrize("form", [{"wrapped": True}, {"rights": True}, {"rights": True, "wrapped": True}])
def test_each_form_of_an_allocation_is_understood(process: Process, form: dict[str, bool]) -> None:
    process.make(*client(OWNER), alloc(OWNER, 0x5C000001, 7, CHANNEL, b"\0" * 128 + b"\x0b\0\0\0" + bytes(236), **form))
    assert [(entry["channel"], entry["engine"]) for entry in process.channels()] == [(7, 11)]


def test_parameters_are_read_only_where_they_are_a_plain_structure(process: Process) -> None:
    process.make(*client(OWNER), alloc(OWNER, 0x5C000001, 7, CHANNEL, b"\1" * 368, rights=True, serialized=True))
    assert [entry["engine"] for entry in process.channels()] == [0]


def test_parameters_whose_size_goes_with_the_class_are_read(process: Process) -> None:
    process.make(*client(OWNER), *group(OWNER, 0x5C000100, 1, 1, sized=False))
    assert [entry["engine"] for entry in process.channels()] == [1]


def test_a_failed_allocation_makes_nothing(process: Process) -> None:
    process.make(*client(OWNER), alloc(OWNER, 0x5C000001, 7, CHANNEL, bytes(368), status=0x1F))
    assert process.channels() == []


@pytest.mark.parametrize(
    ("handle", "left"), [(0x5C000101, 19), (0x5C000100, 12), (0x5C000001, 0), (OWNER, 0), (0x5C001101, 20)]
)
def test_what_hangs_on_a_freed_object_goes_with_it(process: Process, handle: int, left: int) -> None:
    other = OWNER + 1
    process.make(*context(), *context(other), free(OWNER, handle))
    found = process.channels()
    assert len([entry for entry in found if entry["client"] == OWNER]) == left
    assert len([entry for entry in found if entry["client"] == other]) == 20


def test_a_free_that_failed_changes_nothing(process: Process) -> None:
    process.make(*context(), free(OWNER, 0x5C000100, status=0x40))
    assert len(process.channels()) == 20


def test_a_handle_that_is_used_again_is_the_new_object(process: Process) -> None:
    process.make(*context(), alloc(OWNER, 0x5C000200, 0x5C000101, CHANNEL, bytes(368)))
    found = {entry["channel"]: entry["group"] for entry in process.channels()}
    assert len(found) == 20
    assert found[0x5C000101] == 0x5C000200


def test_all_channels_stop_and_go_in_one_call_per_client(process: Process) -> None:
    process.make(*context(), *context(OWNER + 1))
    assert process.ask("stop") == 0
    assert process.ask("go") == 0
    lines = process.switched()
    assert [line[:4] for line in lines] == [
        [verb, str(CTL_FD), hex(owner), "0x5c000002"] for verb in ("stop", "go") for owner in (OWNER, OWNER + 1)
    ]
    listed = [f"{entry['client']:#x}:{entry['channel']:#x}" for entry in process.channels()]
    assert [pair for line in lines[:2] for pair in line[4:]] == listed


def test_more_channels_than_one_call_takes(process: Process) -> None:
    process.make(*client(OWNER), *group(OWNER, 0x5C000100, 1, 70))
    assert process.ask("stop") == 0
    assert [len(line) - 4 for line in process.switched()] == [64, 6]


def test_what_the_driver_says_comes_back(make_process: Callable[..., Process]) -> None:
    process = make_process(FAKE_RM_STATUS="0x1b")
    process.make(*context())
    assert process.ask("stop") == 0x1B


def test_without_channels_there_is_nothing_to_stop(process: Process) -> None:
    assert process.ask("stop") == -19
    assert process.switched() == []


def test_a_channel_without_a_subdevice_is_not_passed_over_in_silence(process: Process) -> None:
    process.make(*client(OWNER)[:2], *group(OWNER, 0x5C000100, 1, 1))
    assert process.ask("stop") == -6


def test_what_is_scheduled_while_stopped_is_stopped(process: Process) -> None:
    process.make(*context())
    process.ask("stop")
    process.make(*group(OWNER, 0x5C000800, 1, 2), control(OWNER, 0x5C000800, rm_calls.SCHEDULE_GROUP))
    assert process.switched()[1:] == [
        ["stop", str(CTL_FD), hex(OWNER), "0x5c000002", f"{OWNER:#x}:0x5c000801", f"{OWNER:#x}:0x5c000802"]
    ]
    process.ask("go")
    assert len(process.switched()[-1]) == 4 + 22
    process.make(control(OWNER, 0x5C000800, rm_calls.SCHEDULE_GROUP))
    assert process.switched()[-1][0] == "go"


def test_a_record_can_be_read_and_replayed(make_process: Callable[..., Process], tmp_path: Path) -> None:
    calls = [*context(), control(OWNER, 0x5C000100, rm_calls.SCHEDULE_GROUP), free(OWNER, 0x5C000201)]
    record = tmp_path / "record"
    make_process(ROWEN_RM_TRACE=str(record)).make(*calls)
    recorded = list(trace.read(record))
    assert [(call.escape, call.params, call.status) for call in recorded] == [
        (call.escape, call.params, call.status) for call in calls
    ]
    assert trace.summary(recorded) == {"alloc": 47, "control": 1, "free": 1}
    again = make_process()
    again.make(*recorded)
    assert len(again.channels()) == 19


def test_a_gate_stops_the_channels_and_not_the_threads(rig: Rig, fake: Path, tmp_path: Path) -> None:
    record, log = rm_calls.write(tmp_path / "calls", context()), tmp_path / "log"
    tenant = _behind(rig, fake, record, log)
    engine = rig.engine()
    rig.opened()
    tenant.advances()
    engine.call("busy")
    rig.acknowledged()
    assert [line.split()[0] for line in log.read_text().splitlines()][-1] == "stop"
    tenant.advances()
    engine.call("idle")
    until(lambda: log.read_text().splitlines()[-1].startswith("go"), "the channels are started")


def _behind(rig: Rig, fake: Path, record: Path, log: Path) -> Tenant:
    code = f"""
        from pathlib import Path
        from gate.nvidia.rm_calls import Replay, parse
        replay = Replay()
        for text in Path({str(record)!r}).read_text().splitlines():
            replay.call(parse(text))
        spin()
    """
    extra = environment(fake, log)
    return rig.tenant(code, **{name: extra[name] for name in ("LD_PRELOAD", "FAKE_RM_LOG", "PYTHONPATH")})

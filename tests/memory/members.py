"""Members of a pool: processes written in C (member.c), and arenas of this process."""

import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from rowen.node_agent.memory.pool import Admission, Pool
from rowen.node_agent.memory.pool_status import Kind

NATIVE = Path(__file__).parents[2] / "node_agent" / "native"
ARENA_SOURCES = [*(NATIVE / "memory" / "arena" / f"{name}.c" for name in ("arena", "range", "room")),
                 NATIVE / "memory" / "file.c", NATIVE / "shared" / "page.c"]  # fmt: skip


def build(made: Path, sources: list[Path], *options: str) -> Path:
    """Compiles with the compiler that built the library."""
    compiler = sysconfig.get_config_var("CC").split()[0]
    command = [
        compiler,
        "-std=c11",
        "-D_GNU_SOURCE=",
        "-O1",
        "-g",
        f"-I{NATIVE}",
        *options,
        *map(str, sources),
        "-o",
        str(made),
    ]
    subprocess.run([*command, "-pthread"], check=True, timeout=120)
    return made


def build_member(folder: Path) -> Path:
    """The program of `Process`; it parks as the gate library does."""
    (park,), (tenant,) = NATIVE.rglob("park.c"), NATIVE.rglob("tenant.h")
    threads = NATIVE / "shared" / "threads.c"
    sources = [Path(__file__).parent / "member.c", park, threads, *ARENA_SOURCES]
    return build(folder / "member", sources, "-include", str(tenant))


class Process:
    """A member in a process of its own."""

    def __init__(self, program: Path, admission: Admission, tag: int, *before: str) -> None:
        self.number = admission.number
        self.files = (admission.arena, admission.memory)
        self.process = subprocess.Popen(
            [*before, str(program), str(admission.arena), str(admission.memory), str(tag)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=self.files,
        )  # fmt: skip
        assert self._answer() == "0"

    def _answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the member ended with {self.process.wait(20)}"
        return line.strip()

    def say(self, command: str, *values: int) -> None:
        """Gives a command; `hear` gets its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join([command, *map(str, values)]) + "\n")
        self.process.stdin.flush()

    hear = _answer

    def text(self, command: str, *values: int) -> str:
        self.say(command, *values)
        return self._answer()

    def ask(self, command: str, *values: int) -> int:
        return int(self.text(command, *values))

    def lost(self) -> list[int]:
        return [int(word) for word in self.text("lost").split()]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


def held_bytes(admission: Admission) -> int:
    """Bytes that a member's memory file really holds."""
    return os.fstat(admission.memory).st_blocks * 512


def admit(pool: Pool, capacity: int, grant: int, kind: Kind = Kind.OFFLINE) -> Admission:
    """A member with a grant."""
    admission = pool.admit(kind, capacity)
    assert pool.grant(admission.number, grant) == grant
    return admission


def quarantine(library: Any, arena: Any) -> int:
    """What the gate library's control thread does before other threads go on."""
    return int(library.rowen_arena_quarantine(arena._handle))

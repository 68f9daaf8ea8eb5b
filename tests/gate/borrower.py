"""An engine or a tenant with memory of its device: a program that takes commands, and never faults."""

import subprocess
import sys
from pathlib import Path

from gate.rig import Rig

from rowen.node_agent.native import library_path

BYTES = 65536

PROGRAM = """
import ctypes, os, sys
from rowen.runtime import native
from rowen.runtime.native import online
engine = online() if "ROWEN_ENGINE_SOCKET" in os.environ else None
memory = ledger = None
def open_(capacity=0):
    global memory, ledger
    try:
        given = native.memory(capacity)
    except OSError as error:
        return error.errno
    if given is None:
        return -1
    memory, ledger = given.arena, given.ledger
    return memory.capacity
def note(owner, tokens, first, count):
    ledger.charge({owner: tokens})
    ledger.add(owner, range(first, first + count))
def fill(first, count, value):
    for handle in range(first, first + count):
        memory.buffer[handle * memory.handle_bytes] = value
    return 0
def child(first):
    pid = os.fork()
    if pid == 0:
        os._exit(10 if memory.buffer[first * memory.handle_bytes] >= 0 else 11)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
def child_opens():
    pid = os.fork()
    if pid == 0:
        os._exit(0 if open_() > 0 and memory.grant == 0 else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
commands = {
    "open": open_,
    "map": lambda first, count: memory.map(range(first, first + count)),
    "unmap": lambda first, count: memory.unmap(range(first, first + count)),
    "fill": fill,
    "sum": lambda first, count: sum(memory.buffer[h * memory.handle_bytes] for h in range(first, first + count)),
    "lost": lambda: len(memory.lost()),
    "which": lambda: sum(1 << handle for handle in memory.lost()),
    "has_ledger": lambda: int(ledger is not None),
    "note": note,
    "want": lambda count: memory.want(count),
    "use": lambda count: memory.use(count),
    "wait": lambda grant: int(memory.wait(grant, 15)),
    "grant": lambda: memory.grant,
    "child": child,
    "child_opens": child_opens,
    "busy": lambda: engine.busy(),
    "idle": lambda: engine.idle(),
    "share": lambda tenths: engine.share(tenths),
}
print("ready", flush=True)
for line in sys.stdin:
    name, *arguments = line.split()
    print(commands[name](*map(int, arguments)) or 0, flush=True)
"""


class Borrower:
    """The program in a process of its own: an engine's, or of a slot's pod."""

    def __init__(self, rig: Rig, slot: int | None, preload: Path | None = None) -> None:
        library = str(preload or library_path())
        environment = {**rig.environment(slot or 0), "LD_PRELOAD": library, "ROWEN_LIBRARY": library}
        if slot is None:
            del environment["LD_PRELOAD"], environment["ROWEN_TENANT_SOCKETS"]
            environment["ROWEN_ENGINE_SOCKET"] = str(rig.socket(None))
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=rig.entering(slot),
        )
        rig.on_close(self.kill)

    def ready(self) -> "Borrower":
        """Waits until the program runs."""
        assert self._line() == "ready"
        return self

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def say(self, command: str, *values: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join([command, *map(str, values)]) + "\n")
        self.process.stdin.flush()

    def hear(self) -> int:
        line = self._line()
        assert line, f"the program ended with {self.process.wait(20)}"
        return int(line)

    def ask(self, command: str, *values: int) -> int:
        self.say(command, *values)
        return self.hear()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

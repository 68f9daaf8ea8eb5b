"""An offline tenant: threads that multiply matrices, and write down when they run. It begins at a line of its input.

python -m preemption.tenant RECORD THREADS [--blocks-signal] [--cpu CPU]
"""

import argparse
import ctypes
import os
import platform
import sys
import threading
from pathlib import Path

import torch
from preemption.record import Record

SIZE = 128
"""A product takes some 0.1 ms: so fine is the record."""
_SIGPROCMASK = {"x86_64": 14, "aarch64": 135}
_SIG_BLOCK = 0


def block_signals() -> None:
    """Behind the gate library's back: it sees to what goes through the C library only."""
    every = ctypes.c_uint64(2**64 - 1)
    number = _SIGPROCMASK[platform.machine()]
    if ctypes.CDLL(None).syscall(number, _SIG_BLOCK, ctypes.byref(every), None, 8) != 0:
        raise OSError("rt_sigprocmask")


def work(record: Record, begin: threading.Event) -> None:
    """Runs for ever, as soon as it may begin."""
    a, b = torch.rand(SIZE, SIZE), torch.rand(SIZE, SIZE)
    begin.wait()
    while True:
        a @ b
        record.note()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("record", type=Path)
    parser.add_argument("threads", type=int)
    parser.add_argument("--blocks-signal", action="store_true")
    parser.add_argument("--cpu", type=int, help="stays there; a tenant behind the gate is kept on its device anyway")
    arguments = parser.parse_args()
    if arguments.cpu is not None:
        os.sched_setaffinity(0, {arguments.cpu})
    if arguments.blocks_signal:
        block_signals()
    torch.set_num_threads(1)
    record = Record(arguments.record)
    begin = threading.Event()
    for _ in range(arguments.threads - 1):
        threading.Thread(target=work, args=(record, begin), daemon=True).start()
    print("ready", flush=True)
    if not sys.stdin.readline():
        return
    print("running", flush=True)
    begin.set()
    work(record, begin)


if __name__ == "__main__":
    main()

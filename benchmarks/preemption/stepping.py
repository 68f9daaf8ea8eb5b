"""A cooperating tenant without Rowen's library: looks at the gate between its own steps only.

python -m preemption.stepping RECORD SOCKET CPU
"""

import mmap
import os
import socket
import struct
import sys
import time
from pathlib import Path

import torch
from preemption.record import Record
from preemption.tenant import SIZE

from rowen.node_agent.attach.message import MAGIC
from rowen.node_agent.devices.library import ABI_VERSION

PRODUCTS = 12 * (384 // SIZE) ** 3
"""The work of 12 products of 384 x 384, which stand for forward, backward and optimizer."""
_HELLO = struct.Struct("<QIIQ")
_GATE_OFFSET = 64
"""Of the gate word in the device's file (rowen_abi.h); it never changes."""


class Gate:
    """The device's gate as any tenant may read it."""

    def __init__(self, path: str) -> None:
        """Comes in through the agent's socket. Raises `OSError`."""
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection.connect(path)
        self._connection.send(_HELLO.pack(MAGIC, ABI_VERSION, _HELLO.size, 0))
        _, files, _, _ = socket.recv_fds(self._connection, 4096, 2)
        self._page = mmap.mmap(files[0], 0, access=mmap.ACCESS_READ)

    def word(self) -> int:
        """Odd: closed."""
        return int(struct.unpack_from("<I", self._page, _GATE_OFFSET)[0])


def main() -> None:
    """Command line."""
    record, gate = Record(Path(sys.argv[1])), Gate(sys.argv[2])
    os.sched_setaffinity(0, {int(sys.argv[3])})
    # More than it has CPUs would wait for one another in loops, whole time slices long.
    torch.set_num_threads(1)
    a, b = torch.rand(SIZE, SIZE), torch.rand(SIZE, SIZE)
    print("running", flush=True)
    while True:
        while (seen := gate.word()) % 2:
            while gate.word() == seen:
                time.sleep(0.0002)
        for _ in range(PRODUCTS):
            a @ b
            record.note()


if __name__ == "__main__":
    main()

"""Makes records of RM ioctls by hand, in the shape that `rm_trace.c` writes. No GPU has answered them."""

import ctypes
import json
import struct
import sys
from dataclasses import asdict
from pathlib import Path

from gpu.library import Library
from gpu.trace import ALLOC, CONTROL, FREE, TRANSFER, Call, parse

ROOT, DEVICE, SUBDEVICE, GROUP = 0x41, 0x80, 0x2080, 0xA06C
CHANNEL, COMPUTE, COPY = 0xC86F, 0xCBC0, 0xC8B5
SCHEDULE_GROUP = 0xA06C0101
CTL_FD = 40


def _call(escape: int, argument: bytes, params: bytes = b"", fd: int = CTL_FD, *, wrapped: bool = False) -> Call:
    size = len(argument)
    request = 0xC01046D3 if wrapped else 0xC0000000 | size << 16 | 0x46 << 8 | escape
    return Call(1, 1, 1, 1, fd, request, escape, size, 0, argument, params)


def alloc(
    client: int, parent: int, handle: int, class_: int, params: bytes = b"", *,
    rights: bool = False, wrapped: bool = False, serialized: bool = False, sized: bool = True, status: int = 0,
) -> Call:  # fmt: skip
    """An allocation, in either of its forms."""
    head = struct.pack("<4IQ", client, parent, handle, class_, 0)
    size = len(params) if sized else 0
    tail = struct.pack("<Q4I", 0, size, int(serialized), status, 0) if rights else struct.pack("<2I", size, status)
    return _call(ALLOC, head + tail, params, wrapped=wrapped)


def free(client: int, handle: int, *, status: int = 0) -> Call:
    """The end of an object."""
    return _call(FREE, struct.pack("<4I", client, client, handle, status))


def control(client: int, handle: int, command: int) -> Call:
    """A control without parameters."""
    return _call(CONTROL, struct.pack("<4IQ2I", client, handle, command, 0, 0, 0, 0))


def client(handle: int) -> list[Call]:
    """A client with a device and a subdevice."""
    return [
        alloc(0, 0, handle, ROOT),
        alloc(handle, handle, 0x5C000001, DEVICE, bytes(56)),
        alloc(handle, 0x5C000001, 0x5C000002, SUBDEVICE, bytes(4)),
    ]


def group(owner: int, handle: int, engine: int, channels: int, *, sized: bool = True) -> list[Call]:
    """A channel group with its channels, which have numbers after the group's, and an engine object on each."""
    made = [alloc(owner, 0x5C000001, handle, GROUP, struct.pack("<3II", 0, 0, 0, engine) + bytes(4), sized=sized)]
    for number in range(1, channels + 1):
        made.append(alloc(owner, handle, handle + number, CHANNEL, bytes(368), rights=number % 2 == 0))
        made.append(alloc(owner, handle + number, handle + number + 0x1000, COMPUTE if engine == 1 else COPY))
    return made


def context(owner: int = 0xC1D00001) -> list[Call]:
    """A CUDA context as one was seen on an A100: 8 channels that compute, three groups of 4 that copy."""
    calls = client(owner) + group(owner, 0x5C000100, 1, 8)
    for number, engine in enumerate((11, 12, 13), 2):
        calls += group(owner, 0x5C000000 + (number << 8), engine, 4)
    return calls


def write(path: Path, calls: list[Call]) -> Path:
    """Writes a record as the library does."""
    lines = []
    for call in calls:
        entry = asdict(call)
        entry["ns"] = entry.pop("start_ns")
        entry.update(request=hex(call.request), argument=call.argument.hex(), params=call.params.hex())
        lines.append(json.dumps(entry) + "\n")
    path.write_text("".join(lines))
    return path


class Replay:
    """Makes the calls of a record again, in this process, which has the library under test and the fake preloaded."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def call(self, call: Call) -> None:
        """Makes one: with the answer in it already, since the fake leaves it as it is."""
        argument = ctypes.create_string_buffer(call.argument, call.size)
        params = ctypes.create_string_buffer(call.params, len(call.params))
        if call.escape in (ALLOC, CONTROL):
            struct.pack_into("<Q", argument, 16, ctypes.addressof(params) if call.params else 0)
        outer = argument
        if call.request & 0xFF == TRANSFER:
            outer = ctypes.create_string_buffer(
                struct.pack("<2IQ", call.escape, call.size, ctypes.addressof(argument)), 16
            )
        assert self._libc.ioctl(call.fd, ctypes.c_ulong(call.request), outer) == 0


def main() -> None:
    """Reads commands on standard input; answers each with a line of JSON."""
    library, replay = Library(sys.argv[1]), Replay()
    for line in sys.stdin:
        name, _, rest = line.rstrip("\n").partition(" ")
        answer: object = None
        if name == "replay":
            for text in Path(rest).read_text().splitlines():
                replay.call(parse(text))
        elif name == "channels":
            answer = [asdict(channel) for channel in library.channels()]
        else:
            answer = library.switch_all(stop=name == "stop")
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

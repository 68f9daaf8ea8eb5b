"""Reads what `ROWEN_RM_TRACE=file` recorded: the RM's ioctls of a process, one line of JSON each.

`python benchmarks/gpu/trace.py FILE` prints it.
"""

import json
import struct
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FREE, CONTROL, ALLOC, TRANSFER = 0x29, 0x2A, 0x2B, 211
CLASSES = {0x41: "client", 0x80: "device", 0x2080: "subdevice", 0xA06C: "channel group"}
SUFFIXES = {0x6F: "channel", 0xC0: "compute", 0xB5: "copy"}


@dataclass(frozen=True, slots=True)
class Call:
    """One ioctl, unwrapped, as it was when it came back. Times in nanoseconds of CLOCK_MONOTONIC."""

    start_ns: int
    took_ns: int
    pid: int
    tid: int
    fd: int
    request: int
    escape: int
    size: int
    result: int
    argument: bytes
    params: bytes

    @property
    def wrapped(self) -> bool:
        """Whether it came inside a transfer."""
        return self.request & 0xFF == TRANSFER

    @property
    def status(self) -> int | None:
        """The RM's status; None where the call has none that is known."""
        at = {(FREE, 16): 12, (CONTROL, 32): 28, (ALLOC, 32): 28, (ALLOC, 48): 40}.get((self.escape, self.size))
        return None if at is None else int(struct.unpack_from("<I", self.argument, at)[0])


def parse(line: str) -> Call:
    """Reads a line. Raises `ValueError` when it is not one of a record."""
    try:
        entry: dict[str, Any] = json.loads(line)
        names = ("ns", "took_ns", "pid", "tid", "fd")
        return Call(
            *(int(entry[name]) for name in names),
            request=int(entry["request"], 16),
            escape=int(entry["escape"]),
            size=int(entry["size"]),
            result=int(entry["result"]),
            argument=bytes.fromhex(entry["argument"]),
            params=bytes.fromhex(entry["params"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a recorded ioctl: {line[:80]!r}: {error}") from error


def read(path: Path) -> Iterator[Call]:
    """Reads a file. Raises `ValueError` with file and line."""
    with path.open() as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield parse(line)
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from error


def class_name(class_: int) -> str:
    """`channel (c86f)` and the like."""
    known = CLASSES.get(class_) or (SUFFIXES.get(class_ & 0xFF) if 0xA000 <= class_ <= 0xFFFF else None)
    return f"{known} ({class_:04x})" if known else f"class {class_:04x}"


def describe(call: Call) -> str:
    """One line for people."""
    form = "wrapped" if call.wrapped else "direct"
    end = f"fd {call.fd}, {form}, status {call.status}, {call.took_ns / 1000:.1f} us"
    if call.escape == ALLOC and call.size in (32, 48):
        client, parent, handle, class_ = struct.unpack_from("<4I", call.argument)
        return f"alloc {class_name(class_)} {handle:#x} under {parent:#x} of {client:#x}: {end}"
    if call.escape == FREE and call.size == 16:
        client, parent, handle, _ = struct.unpack_from("<4I", call.argument)
        return f"free {handle:#x} of {client:#x}: {end}"
    if call.escape == CONTROL and call.size == 32:
        client, handle, command, _ = struct.unpack_from("<4I", call.argument)
        return f"control {command:#010x} on {handle:#x} of {client:#x}: {end}"
    return f"escape {call.escape:#x}, {call.size} bytes: {end}"


def summary(calls: Iterable[Call]) -> dict[str, int]:
    """How many of each kind."""
    names = {FREE: "free", CONTROL: "control", ALLOC: "alloc"}
    counts = Counter(f"{names.get(c.escape, 'other')}{' wrapped' if c.wrapped else ''}" for c in calls)
    return dict(sorted(counts.items()))


def main() -> int:
    """Prints a file. Exits 2 when it cannot be read."""
    if len(sys.argv) != 2:
        print("usage: python benchmarks/gpu/trace.py FILE", file=sys.stderr)
        return 2
    try:
        for call in read(Path(sys.argv[1])):
            print(describe(call))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

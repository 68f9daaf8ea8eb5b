"""Results of a batch that did not come to its end, out of the log that its workers kept.

A worker on object storage writes its results whole at the very end. Until then they are in entries beside their
address, `<output>.parts/<number>`: a line that says who wrote it, and then results (the runtime's `store_output`).
"""

import json
from collections.abc import Iterable, Iterator
from itertools import islice

from rowen.gateway.ids import Role
from rowen.gateway.storage import Storage

_OK = 200


def partial_results(storage: Storage, output: str, role: Role) -> Iterator[bytes]:
    """The lines of those results, in the order in which they came; `output` is the path of the whole ones."""
    for stored in sorted(storage.find(f"{output}.parts"), key=lambda stored: stored.path):
        for line in islice(_lines(storage.blocks(stored.path)), 1, None):
            if (role == "errors") == _has_failed(line):
                yield line


def _lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines, of which one at a time is kept: an entry may be larger than the gateway's memory."""
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest


def _has_failed(line: bytes) -> bool:
    """By the worker's own rule: it has no response, or one whose status is not 200."""
    result = json.loads(line)
    return result["error"] is not None or result["response"]["status_code"] != _OK

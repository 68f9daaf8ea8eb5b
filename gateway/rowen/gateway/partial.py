"""Results of a batch that did not come to its end, out of the log that its workers kept.

A worker on object storage writes its results whole at the very end. Until then they are in entries beside their
address, `<output>.parts/<number>`: a line that says who wrote it, and then results (the runtime's `store_output`).
"""

import json
from collections.abc import Iterator

from rowen.gateway.ids import Role
from rowen.gateway.storage import Storage

_OK = 200


def partial_results(storage: Storage, output: str, role: Role) -> Iterator[bytes]:
    """The lines of those results, in the order in which they came; `output` is the path of the whole ones."""
    for stored in sorted(storage.find(f"{output}.parts"), key=lambda stored: stored.path):
        entry = b"".join(storage.blocks(stored.path))
        for line in entry.splitlines(keepends=True)[1:]:
            if (role == "errors") == _has_failed(line):
                yield line


def _has_failed(line: bytes) -> bool:
    """By the worker's own rule: it has no response, or one whose status is not 200."""
    result = json.loads(line)
    return result["error"] is not None or result["response"]["status_code"] != _OK

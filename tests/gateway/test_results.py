"""What is read of the storage to tell of a batch's results."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import fsspec
import pytest

from rowen.gateway.batch import Batch, read_batch
from rowen.gateway.batches import Batches
from rowen.gateway.files import Files
from rowen.gateway.ids import file_id
from rowen.gateway.jobs import BATCH_ANNOTATION, BatchRecord
from rowen.gateway.partial import partial_results
from rowen.gateway.storage import Storage
from rowen.kube.timestamps import rfc3339

STEM = "0" * 27
RECORD = BatchRecord(input_file_id="f", endpoint="/v1/score", completion_window="1m", model="chat", rows=10)
AUTHOR = b'{"job":"j","attempt":1,"entry":"e","kind":"results"}\n'


def line(number: int, status: int = 200) -> bytes:
    """A result, of which no two are equally long."""
    response = {"status_code": status, "request_id": "r", "body": "ü" * number}
    return json.dumps({"id": f"batch_req_{number}", "custom_id": "c", "response": response, "error": None}).encode()


class Counting(Storage):
    """Counts what is opened; blocks are as small as one likes."""

    def __init__(self, block_bytes: int = 100) -> None:
        super().__init__(fsspec.filesystem("memory", skip_instance_cache=True), "memory://bucket/root")
        self.opened, self._block_bytes = Counter[str](), block_bytes

    def blocks(self, path: str) -> Iterator[bytes]:
        self.opened[path] += 1
        content = b"".join(super().blocks(path))
        return (content[at : at + self._block_bytes] for at in range(0, len(content), self._block_bytes))


@pytest.fixture
def storage() -> Iterator[Counting]:
    found = Counting()
    yield found
    found.remove("ns")


def written(storage: Counting, *entries: bytes) -> str:
    """Entries of the batch's log. Gives the path of its output."""
    output = Files(storage, "ns").result_address(STEM, "output").removeprefix(f"{storage.uri}/")
    for number, entry in enumerate(entries, start=1):
        storage._fs.pipe_file(f"/bucket/root/{output}.parts/{number:08}", AUTHOR + entry)
    return output


def batch(reason: str, ended: float) -> Batch:
    told = {
        "type": "Finished",
        "status": "True",
        "reason": reason,
        "message": "m",
        "lastTransitionTime": rfc3339(ended),
    }
    raw: dict[str, Any] = {
        "metadata": {
            "name": f"batch-{STEM}", "namespace": "ns", "creationTimestamp": rfc3339(ended),
            "annotations": {BATCH_ANNOTATION: RECORD.model_dump_json(by_alias=True)},
        },
        "status": {"conditions": [told], "completionTime": rfc3339(ended)},
    }  # fmt: skip
    found = read_batch(raw)
    assert found is not None
    return found


@pytest.mark.parametrize("block_bytes", [1, 7, 100, 10**6])
def test_lines_are_whole_wherever_blocks_end(block_bytes: int) -> None:
    storage = Counting(block_bytes)
    good, bad = [line(n) + b"\n" for n in (1, 2, 3)], [line(n, 400) + b"\n" for n in (4, 5)]
    output = written(storage, good[0] + bad[0] + good[1], b"", bad[1] + good[2])
    assert list(partial_results(storage, output, "output")) == good
    assert list(partial_results(storage, output, "errors")) == bad
    storage.remove("ns")


@pytest.mark.parametrize(("ago", "again"), [(3600, False), (5, True)])
async def test_a_log_is_read_again_only_while_somebody_may_write_it(ago: int, again: bool, storage: Counting) -> None:
    """Lists tell of a hundred batches, and a log may be thousands of objects."""
    written(storage, line(1) + b"\n")
    batches, ended = Batches(storage, 10, None), batch("DeadlineExceeded", time.time() - ago)
    first = await batches.told(ended)
    assert (first["status"], first["output_file_id"]) == ("expired", file_id(STEM, "output"))
    before = storage.opened.total()
    assert await batches.told(ended) == first
    assert (storage.opened.total() > before) is again

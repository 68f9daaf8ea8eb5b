"""Objects as deeply nested as the API server stores them can be read."""

import json
import sys
from collections.abc import Iterator

import pytest

from rowen.kube import nesting

DEEP = '{"a":' * 10_000 + "1" + "}" * 10_000


@pytest.fixture(autouse=True)
def limit() -> Iterator[None]:
    before = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(before)


def test_what_the_api_server_stores_is_read_and_written() -> None:
    with pytest.raises(RecursionError):
        json.loads(DEEP)
    nesting.allow()
    assert len(json.dumps(json.loads(DEEP), separators=(",", ":"))) == len(DEEP)

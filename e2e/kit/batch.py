"""A batch job's requests, and the check that each was answered exactly once."""

import json
from typing import Any

from kit import volumes


def requests(count: int, max_tokens: int) -> list[dict[str, Any]]:
    """Completion requests `row-0`, `row-1`, … in the OpenAI batch format."""
    return [
        {
            "custom_id": f"row-{number}",
            "method": "POST",
            "url": "/v1/completions",
            "body": {"prompt": f"order number {number}", "max_tokens": max_tokens},
        }
        for number in range(count)
    ]


def write(namespace: str, path: str, rows: list[dict[str, Any]]) -> None:
    """Writes rows as JSONL on the claim `data`."""
    volumes.write(namespace, f"data/{path}", "".join(json.dumps(row) + "\n" for row in rows))


def results(namespace: str, path: str) -> list[dict[str, Any]]:
    """The rows of a result file on the claim `data`."""
    # Text would be split at U+2028 and its like, too.
    return [json.loads(line) for line in volumes.read(namespace, f"data/{path}").encode().splitlines()]


def check_answered_once(namespace: str, path: str, rows: list[dict[str, Any]]) -> None:
    """Asserts that the result file holds an answer to each row, no error, and nothing twice."""
    found = results(namespace, path)
    assert [entry for entry in found if entry["error"] or entry["response"]["status_code"] != 200] == []
    assert sorted(entry["custom_id"] for entry in found) == sorted(row["custom_id"] for row in rows)

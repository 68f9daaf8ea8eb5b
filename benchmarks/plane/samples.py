"""Counters in Prometheus' text, read line by line: an API server's are megabytes."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

_LINE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>[^ ]+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

REQUESTS = "apiserver_request_total"
DISPATCHED = "apiserver_flowcontrol_dispatched_requests_total"

Counts = Counter[str]


def samples(text: str, name: str) -> Iterator[tuple[dict[str, str], float]]:
    """Labels and value of each sample of that name."""
    for line in text.splitlines():
        if line.startswith(name) and (found := _LINE.match(line)) and found["name"] == name:
            yield dict(_LABEL.findall(found["labels"] or "")), float(found["value"])


def total(text: str, name: str, **labels: str) -> float:
    """Sum of the samples that have these labels; 0 without any."""
    return sum(value for found, value in samples(text, name) if labels.items() <= found.items())


def requests_by_kind(text: str) -> Counts:
    """Requests that an API server has answered, by `VERB resource/subresource`, with the code where one was refused.

    A watch counts when it ends.
    """
    counts: Counts = Counter()
    for labels, value in samples(text, REQUESTS):
        resource = "/".join(part for part in (labels.get("resource"), labels.get("subresource")) if part)
        if resource:
            code = labels.get("code", "")
            refused = f" {code}" if code >= "400" else ""
            counts[f"{labels['verb']} {resource}{refused}"] += int(value)
    return counts


def requests_by_part(text: str, parts: Mapping[str, str]) -> Counts:
    """Requests that it has begun, by part. `parts`: part → its FlowSchema."""
    counts: Counts = Counter()
    for part, schema in parts.items():
        counts[part] = int(total(text, DISPATCHED, flow_schema=schema))
    return counts

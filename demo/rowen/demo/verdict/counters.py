"""An agent's counters of its devices, from its metrics. Pure."""

from collections.abc import Collection

from prometheus_client.parser import text_string_to_metric_families

Counters = dict[tuple[str, str], int]
"""By metric and kind; the kind is empty where the metric has none."""


def parse_counters(metrics: str, names: Collection[str]) -> dict[str, Counters]:
    """Those of the names, by device. Raises `ValueError` for what are no metrics."""
    found: dict[str, Counters] = {}
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            if sample.name in names and "device" in sample.labels:
                key = sample.name, sample.labels.get("kind", "")
                found.setdefault(sample.labels["device"], {})[key] = round(sample.value)
    return found

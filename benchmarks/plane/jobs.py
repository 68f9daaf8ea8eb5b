"""The jobs: templates that need some memory of one device, some of them with an SLA."""

import random
from typing import Any

from plane.names import HELD, NAMESPACE

from rowen.crds.names import API_VERSION

_MEMORIES = ("2Gi", "4Gi", "8Gi", "16Gi")
_FRACTIONS = (None, None, 0.1, 0.2)
"""SLAs; an engine leaves two fifths of its device at least."""


def job_name(number: int, *, held: bool) -> str:
    """Held jobs run until they are told to end, the others for some seconds."""
    return f"{HELD if held else 'job'}-{number:05}"


def job(seed: int, number: int, *, held: bool) -> dict[str, Any]:
    """The job of that number; the same for the same seed."""
    source = random.Random(f"{seed} {number}")
    fraction = source.choice(_FRACTIONS)
    spec: dict[str, Any] = {
        "template": {"spec": {"containers": [{"name": "main", "image": "none"}]}},
        "memory": source.choice(_MEMORIES),
    }
    if fraction is not None:
        spec["sla"] = {"throughputFraction": fraction}
    metadata = {"name": job_name(number, held=held), "namespace": NAMESPACE}
    return {"apiVersion": API_VERSION, "kind": "OfflineJob", "metadata": metadata, "spec": spec}

"""Question 4: memory that changes its owner: a pool shared by descriptor, and pages taken away under a stop."""

from typing import Any

from gpu.process import Setting, WorkerError, worker

COUNTS = [1, 16, 256, 4096]
REMAPS = ((64, 1), (1024, 16), (1024, 256))
"""Pages of the pool, and how many of them are taken."""


def _shared(setting: Setting) -> dict[str, Any]:
    """A page that one process makes and another fills: what each of them reads."""
    with worker(setting) as owner, worker(setting) as other:
        made = owner.ask("share", value=0x5A)
        adopted = other.ask("adopt", **made, value=0xA5)
        return {"other_read": adopted["found"], "owner_read_afterwards": owner.ask("read_shared")}


def _remap(setting: Setting, pages: int, taken: int) -> dict[str, Any]:
    with worker(setting) as process:
        found: dict[str, Any] = process.ask("remap", timeout=120, pages=pages, taken=taken)
        return found


def run(setting: Setting) -> dict[str, Any]:
    """Each part by itself, so that one that fails leaves the others."""
    figures: dict[str, Any] = {}
    with worker(setting) as process:
        figures["pool"] = process.ask("pool", timeout=300, counts=COUNTS)
    parts = {f"remap_{taken}_of_{pages}": (pages, taken) for pages, taken in REMAPS}
    for name, (pages, taken) in parts.items():
        try:
            figures[name] = _remap(setting, pages, taken)
        except WorkerError as error:
            figures[name] = {"error": str(error)}
    try:
        figures["shared"] = _shared(setting)
    except WorkerError as error:
        figures["shared"] = {"error": str(error)}
    return figures

"""What a process leaves to its kubelet, and so to the status of its job or service."""

from pathlib import Path

from rowen.crds.names import TERMINATION_LOG


def leave(words: str, termination_log: Path = Path(TERMINATION_LOG)) -> None:
    """Replaces what was left before. Raises `OSError`.

    The kubelet makes the file; outside a container there is none, and nothing is done.
    """
    if termination_log.exists():
        termination_log.write_text(words, encoding="utf-8")

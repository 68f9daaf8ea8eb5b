"""Times as the API server has them (RFC 3339), and as Unix seconds."""

from datetime import UTC, datetime
from typing import Literal


def rfc3339(unix: float, timespec: Literal["seconds", "milliseconds", "microseconds"] = "seconds") -> str:
    """Unix seconds in UTC, cut to whole ones as Kubernetes writes them, or finer.

    Raises `ValueError` or `OverflowError` where no calendar has them.
    """
    return datetime.fromtimestamp(unix, UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def unix_seconds(text: str) -> float:
    """Seconds since 1970. Raises `ValueError` for any other text; a time without a zone is none."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text!r} names no time zone")
    return found.timestamp()


def unix_or_none(text: str | None) -> float | None:
    """Like `unix_seconds`; None for an absent time."""
    return unix_seconds(text) if text else None

"""RFC 3339 times as Kubernetes writes them, to and from Unix seconds."""

from datetime import UTC, datetime


def rfc3339(seconds: float) -> str:
    """Unix seconds as an RFC 3339 time in UTC, whole seconds."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def unix(text: str) -> float:
    """Unix seconds of an RFC 3339 time. Raises `ValueError` for any other text."""
    return datetime.fromisoformat(text).timestamp()


def unix_or_none(text: str | None) -> float | None:
    """Like `unix`; None for an absent time."""
    return unix(text) if text else None

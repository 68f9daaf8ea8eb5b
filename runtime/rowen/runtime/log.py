"""Logging of what runs in workers and in engines. An image of a user's own may not have structlog."""

import os
import sys
import traceback
from typing import Any

from rowen.crds.names import ENGINE_SOCKET_ENV


class PlainLog:
    """One line on standard error for each event."""

    def info(self, event: str, **fields: object) -> None:
        """What happened."""
        _write(event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """What somebody may want to change."""
        _write(event, fields)

    def error(self, event: str, **fields: object) -> None:
        """What does not work."""
        _write(event, fields)

    def exception(self, event: str, **fields: object) -> None:
        """What went wrong, and where; while an exception is handled."""
        error = sys.exception()
        if error is not None:
            fields |= {"error": f"{type(error).__name__}: {error}", "at": _place(error)}
        _write(event, fields)


def _place(error: BaseException) -> str:
    """File and line that raised it."""
    places = traceback.extract_tb(error.__traceback__, limit=-1)
    return ", ".join(f"{place.filename}:{place.lineno}" for place in places)


def _write(event: str, fields: dict[str, object]) -> None:
    told = "".join(f" {name}={value!s}" for name, value in fields.items())
    # One call, so that lines of several processes do not mix.
    sys.stderr.write(f"rowen: {event}{told}".replace("\n", " ") + "\n")


def get_logger() -> Any:
    """The logger of structlog; in an engine, and where structlog is missing, a `PlainLog`."""
    if os.environ.get(ENGINE_SOCKET_ENV):
        return PlainLog()
    try:
        import structlog
    except ImportError:
        return PlainLog()
    return structlog.get_logger()

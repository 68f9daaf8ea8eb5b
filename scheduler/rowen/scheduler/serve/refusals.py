"""A wrong field is refused like everything else: in a line, without what was sent."""

from collections.abc import Sequence
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

MOST_FAULTS = 5


async def wrong_field(_: Request, error: Exception) -> JSONResponse:
    """The answer to a `RequestValidationError`."""
    faults: Sequence[Any] = error.errors() if isinstance(error, RequestValidationError) else ()
    return JSONResponse({"detail": "; ".join(map(_told, faults[:MOST_FAULTS]))}, 422)


def _told(fault: dict[str, Any]) -> str:
    # Of text that is no JSON the place is a number of characters.
    _, *path = fault["loc"] if fault["type"] != "json_invalid" else fault["loc"][:1]
    return f"{'.'.join(map(str, path)) or 'the body'}: {fault['msg']}"

"""What a caller is told when something is refused: errors as OpenAI's API has them."""

from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from rowen.kube.errors import KubeError, RefusedError

log = structlog.get_logger()

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_AGAIN, _NO_MORE = {"Retry-After": "5"}, {"Connection": "close"}
_HEADERS = {429: _AGAIN, 503: _AGAIN, 408: _NO_MORE, 413: _NO_MORE}
"""What is left of a body that is too slow or too large is not read."""


class ApiError(Exception):
    """An answer that is an error."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        data: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code, self.data = status, message, param, code, data

    def response(self) -> JSONResponse:
        """As it goes over the wire; `data` are several faults of one file, each with its line."""
        type_ = _TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        error: dict[str, Any] = {"message": self.message, "type": type_, "param": self.param, "code": self.code}
        if self.data:
            error["data"] = list(self.data)
        return JSONResponse({"error": error}, self.status, _HEADERS.get(self.status))


def busy(message: str) -> ApiError:
    """Something passing stands against it."""
    return ApiError(503, f"{message}; try again later", code="unavailable")


def of_kubernetes(error: KubeError) -> ApiError:
    """What the API server's refusal means for the caller, who acted with a token of their own."""
    if not isinstance(error, RefusedError) or error.passes:
        log.warning("the API server gives no answer", error=str(error))
        return busy("the API server gives no answer")
    if error.status == 401:
        return ApiError(401, "the API server does not know this token, or it has expired", code="invalid_api_key")
    if error.status in (403, 404, 409):
        return ApiError(error.status, error.message, code=error.reason or None)
    return ApiError(400, error.message, code=error.reason or None)


def install(app: FastAPI) -> None:
    """Has every refusal of the application told in this shape."""

    @app.exception_handler(ApiError)
    async def told(_: Request, error: ApiError) -> JSONResponse:
        return error.response()

    @app.exception_handler(KubeError)
    async def of_the_cluster(_: Request, error: KubeError) -> JSONResponse:
        return of_kubernetes(error).response()

    @app.exception_handler(HTTPException)
    async def of_the_route(_: Request, error: HTTPException) -> JSONResponse:
        return ApiError(error.status_code, str(error.detail)).response()

    @app.exception_handler(Exception)
    async def unexpected(_: Request, error: Exception) -> JSONResponse:
        return ApiError(500, "something went wrong here; the gateway's log says what").response()

"""A question is read as the API server reads a job; a wrong field is refused in a line, without what was sent."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from fastapi import HTTPException, Request
from pydantic import ValidationError

from rowen.crds.base import ApiModel
from rowen.scheduler.serve.messages import faults

T = TypeVar("T", bound=ApiModel)


def read_as(form: type[T]) -> Callable[[Request], Awaitable[T]]:
    """Reads a request's body: a dependency of what is asked. Types are strict: `"2"` is no number, and `yes` none."""

    async def read(request: Request) -> T:
        """Raises 422."""
        try:
            return form.model_validate_json(await request.body(), strict=True)
        except ValidationError as error:
            raise _refused(error) from None

    return read


def read_query(form: type[T]) -> Callable[[Request], T]:
    """Reads a request's query: a dependency of what is asked."""

    def read(request: Request) -> T:
        """Raises 422."""
        try:
            return form.model_validate(dict(request.query_params))
        except ValidationError as error:
            raise _refused(error) from None

    return read


def _refused(error: ValidationError) -> HTTPException:
    return HTTPException(422, "; ".join(_told(*fault) for fault in faults(error)))


def _told(field: str, fault: str) -> str:
    return f"{field or 'the body'}: {fault}"

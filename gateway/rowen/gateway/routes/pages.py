"""Lists, page by page, as OpenAI's API has them. Pure."""

from collections.abc import Sequence
from typing import Any, Literal

from rowen.gateway.callers.errors import ApiError

Order = Literal["asc", "desc"]


def page(items: Sequence[dict[str, Any]], after: str | None, limit: int, order: Order = "desc") -> dict[str, Any]:
    """The page that follows the item with the id `after`; `items` are all of them, newest first.

    Raises `ApiError` where there is no such item.
    """
    ordered = items if order == "desc" else items[::-1]
    ids = [item["id"] for item in ordered]
    if after is not None and after not in ids:
        raise ApiError(400, f"there is no {after[:64]!r} to go on after", param="after", code="invalid_cursor")
    begin = ids.index(after) + 1 if after is not None else 0
    data = ordered[begin : begin + limit]
    return {
        "object": "list",
        "data": list(data),
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": begin + limit < len(ordered),
    }

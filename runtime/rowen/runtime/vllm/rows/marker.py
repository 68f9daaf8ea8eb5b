"""How a request says that it is a batch row: by its id, which vLLM makes of what the client sent.

Whoever marks a request lowers that request, and no other one.
"""

import uuid
from collections.abc import Iterable

ID_HEADER = "X-Request-Id"
"""vLLM puts it into the ids of what it makes of the request; but of that to `/v1/responses`, which has it in its
body."""
ROW_PREFIX = "rowen-row-"
"""Of the header."""
_HEADER = ID_HEADER.lower().encode()


def row_id() -> str:
    """What a client that sends a row says in the header; another one each time, since vLLM takes none twice."""
    return f"{ROW_PREFIX}{uuid.uuid4().hex}"


def is_row(request_id: str) -> bool:
    """Whether the engine's request with this id is a row. vLLM adds the route's name before, and more after."""
    return ROW_PREFIX in request_id


def is_sent_as_row(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether an HTTP request with these headers (as ASGI has them) is one."""
    return any(name == _HEADER and value.startswith(ROW_PREFIX.encode()) for name, value in headers)

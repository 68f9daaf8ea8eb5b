"""vLLM's waiting queue, in which batch rows stand behind all online requests."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from typing_extensions import override
from vllm.v1.core.sched.request_queue import RequestQueue

from rowen.runtime.vllm.rows.marker import is_row

if TYPE_CHECKING:
    from vllm.v1.request import Request

    from rowen.runtime.vllm.rows.order import Rows


class RowsLast(RequestQueue):  # type: ignore[misc]
    """Whatever looks at the queue sees both: counting, aborting, pausing, what memory those that wait need."""

    def __init__(self, online: RequestQueue, rows: "Rows") -> None:
        self.online = online
        """vLLM's own."""
        self._rows = rows

    @override
    def add_request(self, request: "Request") -> None:
        if is_row(request.request_id):
            self._rows.wait(request)
        else:
            self.online.add_request(request)

    @override
    def pop_request(self) -> "Request":
        if self.online:
            return self.online.pop_request()
        row = self.peek_request()
        self._rows.run(row)
        return row

    @override
    def peek_request(self) -> "Request":
        return self.online.peek_request() if self.online else next(self._rows.in_order())

    @override
    def prepend_request(self, request: "Request") -> None:
        self.prepend_requests([request])

    @override
    def prepend_requests(self, requests: "Iterable[Request]") -> None:
        """Rows have the place that they had."""
        self.online.prepend_requests(_without_rows(requests, self._rows.wait))

    @override
    def remove_request(self, request: "Request") -> None:
        self.remove_requests([request])

    @override
    def remove_requests(self, requests: "Iterable[Request]") -> None:
        online = _without_rows(requests, self._rows.run)
        # It looks at all that wait.
        if online:
            self.online.remove_requests(online)

    @override
    def __bool__(self) -> bool:
        return bool(self.online) or self._rows.waiting > 0

    @override
    def __len__(self) -> int:
        return len(self.online) + self._rows.waiting

    @override
    def __iter__(self) -> "Iterator[Request]":
        return chain(self.online, self._rows.in_order())


def _without_rows(requests: "Iterable[Request]", put: "Callable[[Request], None]") -> "list[Request]":
    online = []
    for request in requests:
        if is_row(request.request_id):
            put(request)
        else:
            online.append(request)
    return online

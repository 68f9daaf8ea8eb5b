"""When the tokens of a streamed response left the server."""

import json
from typing import Any

_DATA = b"data:"


class TokenTimes:
    """Counts the token events of a server-sent event stream. Times are nanoseconds of one monotonic clock.

    Only the first choice counts. Tokens that vLLM merged into one event count as one: the time per output token
    is then an upper bound.
    """

    def __init__(self, arrival_ns: int) -> None:
        self._arrival_ns = arrival_ns
        self._first_ns = 0
        self._last_ns = 0
        self.tokens = 0
        """Token events so far."""

    def feed(self, body: bytes, now_ns: int) -> None:
        """A piece of the body was sent."""
        tokens = sum(_is_token(line.removeprefix(_DATA)) for line in body.split(b"\n") if line.startswith(_DATA))
        if tokens == 0:
            return
        if self.tokens == 0:
            self._first_ns = now_ns
        self._last_ns = now_ns
        self.tokens += tokens

    @property
    def ttft_ns(self) -> int:
        """Time to the first token; 0 while there is none."""
        return self._first_ns - self._arrival_ns if self.tokens else 0

    @property
    def tpot_ns(self) -> int:
        """Mean time per output token after the first; 0 with fewer than two tokens."""
        return (self._last_ns - self._first_ns) // (self.tokens - 1) if self.tokens > 1 else 0


def _is_token(data: bytes) -> bool:
    try:
        event = json.loads(data)
    except ValueError:
        return False  # `[DONE]`
    if not isinstance(event, dict):
        return False
    if "choices" in event:
        return any(choice.get("index") == 0 and not _opens_chat(choice) for choice in event["choices"])
    # The Responses dialect says `response.output_text.delta`, the Messages dialect `content_block_delta`.
    kind = str(event.get("type", ""))
    return kind.endswith(".delta") or kind == "content_block_delta"


def _opens_chat(choice: dict[str, Any]) -> bool:
    delta = choice.get("delta") or {}
    return "role" in delta and not delta.get("content") and choice.get("finish_reason") is None

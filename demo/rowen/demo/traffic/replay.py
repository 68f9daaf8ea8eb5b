"""Open-loop replay: requests are sent at their arrival times, whether or not earlier ones were answered."""

import asyncio
import json
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile

import httpx

from rowen.demo.traffic.scaling import Request

MAX_REQUESTS = 2000
MAX_SECONDS = 600.0
_LAG_PERIOD = 0.01


@dataclass(frozen=True)
class Outcome:
    """What became of one request. Times are Unix times and durations in seconds."""

    arrival: float
    """Unix time at which it was due."""
    lateness: float
    """How much later than due it was sent: the replayer's own delay."""
    end: float
    """Unix time of the last token or of the error."""
    ttft: float | None
    """From due to the first token; None where none came."""
    tpot: float | None
    """Mean time per token after the first; None where there were fewer than two."""
    tokens: int
    """Tokens received."""
    error: str | None
    """Why it failed; None where it was answered in full."""
    lag: float = 0.0
    """The longest that the replayer's event loop was late while it was in flight: so late may a token have been read.

    Known when the whole replay is over; lags below the sampling period may be missed.
    """


@dataclass
class Progress:
    """A running replay, for those who watch it."""

    started: float = 0.0
    """Unix time of the start; 0 before."""
    total: int = 0
    sent: int = 0
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def in_flight(self) -> int:
        """Requests sent and not yet answered."""
        return self.sent - len(self.outcomes)


async def replay(
    requests: Sequence[Request],
    *,
    endpoint: Callable[[], str],
    model: str,
    progress: Progress,
    limit: float = 60.0,
) -> list[Outcome]:
    """Sends the requests to `endpoint()`/v1/completions and returns what became of each, in order of arrival.

    Args:
        requests: What to send; at most `MAX_REQUESTS`, arriving within `MAX_SECONDS`.
        endpoint: Base URL, asked for anew for each request, since a tunnel may move.
        model: Name of the served model.
        progress: Filled while the replay runs.
        limit: Seconds after which a request counts as failed.

    Raises:
        ValueError: More or longer than the bounds.
    """
    if len(requests) > MAX_REQUESTS or (requests and requests[-1].arrival > MAX_SECONDS):
        raise ValueError(f"a replay is at most {MAX_REQUESTS} requests in {MAX_SECONDS:.0f} s")
    # vLLM closes a connection after 5 s without a request: what is sent just then fails.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=2.0)
    progress.total = len(requests)
    progress.started = time.time()
    # A monotonic clock paces the replay; its Unix times are derived from one reading, so no clock step distorts them.
    origin = time.monotonic()
    unix_offset = progress.started - origin
    async with (
        httpx.AsyncClient(timeout=httpx.Timeout(limit), limits=limits, trust_env=False) as client,
        asyncio.TaskGroup() as group,
    ):

        async def one(request: Request) -> Outcome:
            outcome = await _send(client, endpoint(), model, request, origin + request.arrival, unix_offset, limit)
            progress.outcomes.append(outcome)
            return outcome

        lags: list[_Lag] = []
        sampler = group.create_task(_sample_lags(lags))
        tasks = []
        for request in requests:
            await asyncio.sleep(max(0.0, origin + request.arrival - time.monotonic()))
            progress.sent += 1
            tasks.append(group.create_task(one(request)))
        await asyncio.gather(*tasks)
        # A stall that the last answer came in is noted when the sampler wakes after it.
        await asyncio.sleep(2 * _LAG_PERIOD)
        sampler.cancel()
    return [_with_lag(task.result(), lags, unix_offset) for task in tasks]


@dataclass(frozen=True)
class _Lag:
    """The event loop was to come back at one time and came at another; monotonic."""

    due: float
    came: float


async def _sample_lags(lags: list[_Lag]) -> None:
    while True:
        due = time.monotonic() + _LAG_PERIOD
        await asyncio.sleep(_LAG_PERIOD)
        lags.append(_Lag(due, time.monotonic()))


def _with_lag(outcome: Outcome, lags: Sequence[_Lag], unix_offset: float) -> Outcome:
    """With the longest lag of the time from when it was due to its end."""
    start, end = outcome.arrival - unix_offset, outcome.end - unix_offset
    first = bisect_left(lags, start, key=lambda lag: lag.came)
    during = takewhile(lambda lag: lag.due < end, islice(lags, first, None))
    return replace(outcome, lag=max((lag.came - lag.due for lag in during), default=0.0))


@dataclass
class _Stream:
    """What a streamed answer has shown so far; times are monotonic."""

    first: float | None = None
    last: float = 0.0
    tokens: int = 0

    def feed(self, line: bytes, now: float) -> None:
        if not line.startswith(b"data: ") or line == b"data: [DONE]":
            return
        event = json.loads(line.removeprefix(b"data: "))
        if "error" in event:
            raise ValueError(str(event["error"]))
        if event.get("choices"):
            self.first = now if self.first is None else self.first
            self.last = now
        if event.get("usage"):
            self.tokens = event["usage"]["completion_tokens"]


async def _lines(response: httpx.Response) -> AsyncIterator[bytes]:
    """Those that httpx makes end at U+2028 and its like, too, which an answer's text may have."""
    rest = b""
    async for chunk in response.aiter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")


async def _send(
    client: httpx.AsyncClient,
    url: str,
    model: str,
    request: Request,
    due: float,
    unix_offset: float,
    limit: float,
) -> Outcome:
    body = {
        "model": model,
        "prompt": list(request.prompt),
        "max_tokens": request.output_tokens,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    lateness = time.monotonic() - due
    stream = _Stream()
    error: str | None = None
    try:
        async with (
            asyncio.timeout(limit),
            client.stream("POST", f"{url}/v1/completions", json=body) as response,
        ):
            if response.status_code != httpx.codes.OK:
                error = f"HTTP {response.status_code}: {(await response.aread()).decode(errors='replace')[:200]}"
            else:
                async for line in _lines(response):
                    stream.feed(line, time.monotonic())
    except (httpx.HTTPError, TimeoutError, ValueError) as failure:
        error = f"{type(failure).__name__}: {failure}"
    if error is None and stream.tokens != request.output_tokens:
        error = f"{stream.tokens} tokens instead of {request.output_tokens}"
    first = stream.first
    between = stream.tokens - 1
    return Outcome(
        arrival=due + unix_offset,
        lateness=lateness,
        end=time.monotonic() + unix_offset,
        ttft=None if first is None else first - due,
        tpot=(stream.last - first) / between if first is not None and between > 0 else None,
        tokens=stream.tokens,
        error=error,
    )

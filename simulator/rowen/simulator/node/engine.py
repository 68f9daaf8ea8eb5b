"""The online engine: when each request is in flight, and what KV cache it holds.

1. Requests are prefilled one after the other, in order of arrival: `prefill_seconds` and the input's tokens each.
2. Then they are decoded in one batch: each output token takes a step. A step takes `decode_seconds`, and
   `decode_seconds_per_request` more for each other request that is decoded when the request's own decoding begins.
3. A request is in flight from its arrival to its last token. From its prefill on it holds the input's tokens in the KV
   cache, and one more with each output token.

Not modelled: chunked prefill that slows decoding down, a batch that changes during a request's decoding, a limit of the
batch, a full cache that makes requests wait, prefix caching, speculative decoding.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from rowen.simulator.arrays import Floats
from rowen.simulator.requests import Requests

_GIB = 1 << 30
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Engine(BaseModel):
    """An engine and its model. The defaults are round numbers for an 8B model in half precision on a GPU of 80 GB.

    They are no measurement: take those of your own engine.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    prefill_seconds: NotNegative = 0.02
    """Of each request, whatever its length."""
    prefill_tokens_per_second: Positive = 10_000.0
    """Input tokens."""
    decode_seconds: Positive = 0.02
    """A step with one request."""
    decode_seconds_per_request: NotNegative = 0.0002
    """More for each further one in the batch."""
    decode_gap_seconds: NotNegative = 0.004
    """Between two steps: what the agent makes the cooldown from."""
    kv_bytes_per_token: Annotated[int, Field(ge=1)] = 131_072
    """Over all devices of the engine: 32 layers x 8 heads x 128 x (key and value) x 2 bytes."""
    memory_bytes: Annotated[int, Field(ge=0)] = 20 * _GIB
    """On each device, for itself: weights and what else never changes its owner."""
    pool_bytes: Annotated[int, Field(ge=0)] = 44 * _GIB
    """Most that it may have of each device's pool: `memoryLimit` less `memory`."""


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """Requests with their times, in order of arrival; seconds."""

    requests: Requests
    prefills: Floats
    """When prefilling begins."""
    decodes: Floats
    """When decoding begins."""
    ends: Floats

    def at(self, keep: NDArray[np.bool_]) -> "Served":
        """Those where the mask is true."""
        index = np.flatnonzero(keep)
        return Served(self.requests.at(index), self.prefills[index], self.decodes[index], self.ends[index])


NONE = Served(Requests(np.empty(0), np.empty(0), np.empty(0)), np.empty(0), np.empty(0), np.empty(0))


def serve(requests: Requests, before: Served, engine: Engine) -> Served:
    """The requests behind those that came before, which keep their times; all of them together."""
    arrivals = requests.arrivals
    lengths = engine.prefill_seconds + requests.inputs / engine.prefill_tokens_per_second
    free = float(before.decodes.max()) if len(before.decodes) else -np.inf
    added = np.cumsum(lengths)
    # end_i = max(arrival_i, end_(i-1)) + length_i, without a loop.
    decodes = added + np.maximum.accumulate(np.maximum(arrivals, free) - (added - lengths))
    prefills = np.maximum(decodes - lengths, arrivals)
    ends = decodes + requests.outputs * _step_seconds(requests, decodes, before, engine)
    return Served(
        Requests(*(np.concatenate(pair) for pair in _columns(before.requests, requests))),
        np.concatenate((before.prefills, prefills)),
        np.concatenate((before.decodes, decodes)),
        np.concatenate((before.ends, ends)),
    )


def _columns(first: Requests, second: Requests) -> list[tuple[Floats, Floats]]:
    return [
        (first.arrivals, second.arrivals),
        (first.inputs, second.inputs),
        (first.outputs, second.outputs),
    ]


def _step_seconds(requests: Requests, decodes: Floats, before: Served, engine: Engine) -> Floats:
    """With the batch at the beginning of each request's decoding, in which the others take the time of single ones."""
    begun = np.concatenate((before.decodes, decodes))
    alone = begun + np.concatenate((before.requests.outputs, requests.outputs)) * engine.decode_seconds
    begun, ended = np.sort(begun), np.sort(alone)
    batch = np.searchsorted(begun, decodes, side="right") - np.searchsorted(ended, decodes, side="right")
    others = np.maximum(batch - 1, 0)
    return np.asarray(engine.decode_seconds + engine.decode_seconds_per_request * others, dtype=np.float64)


def peak_tokens(served: Served, edges: Floats) -> Floats:
    """Most tokens in the KV cache at once, between each two edges."""
    start = edges[0]
    prefills, decodes, ends = served.prefills - start, served.decodes - start, served.ends - start
    inputs, outputs = served.requests.inputs, served.requests.outputs
    slopes = np.divide(outputs, ends - decodes, out=np.zeros(len(ends)), where=ends > decodes)
    # The sum over all in flight is base + slope x time; each change of it is an event.
    times = np.concatenate((prefills, decodes, ends))
    bases = np.concatenate((inputs, -slopes * decodes, slopes * decodes - inputs))
    rates = np.concatenate((np.zeros(len(ends)), slopes, -slopes))
    order = np.argsort(times, kind="stable")
    times, base, rate = times[order], np.cumsum(bases[order]), np.cumsum(rates[order])
    after = base + rate * times
    before = np.concatenate(([0.0], base[:-1])) + np.concatenate(([0.0], rate[:-1])) * times
    peaks = _at(times, base, rate, edges - start)
    peaks = np.maximum(peaks[:-1], peaks[1:])
    step = np.searchsorted(edges - start, times, side="right") - 1
    inside = (step >= 0) & (step < len(peaks))
    np.maximum.at(peaks, step[inside], np.maximum(before, after)[inside])
    return np.maximum(peaks, 0.0)


def _at(times: Floats, base: Floats, rate: Floats, moments: Floats) -> Floats:
    last = np.searchsorted(times, moments, side="right")
    bases, rates = np.concatenate(([0.0], base)), np.concatenate(([0.0], rate))
    return np.asarray(bases[last] + rates[last] * moments, dtype=np.float64)

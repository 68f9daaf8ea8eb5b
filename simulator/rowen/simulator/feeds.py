"""What keeps the services busy: a trace of one of the formats, or the example."""

from enum import StrEnum
from pathlib import Path

from rowen.simulator.node.service import Feed, RequestFeed
from rowen.simulator.node.usage import UsageFeed
from rowen.simulator.sources.clients import Clients
from rowen.simulator.sources.example import Example
from rowen.simulator.sources.replay import Replay
from rowen.simulator.traces import alibaba, azure, plain, servegen

EXAMPLE_REQUESTS_PER_SECOND = 0.4
"""Of each service, in the mean."""


class Format(StrEnum):
    """Of a trace."""

    PLAIN = "plain"
    AZURE = "azure"
    SERVEGEN = "servegen"
    ALIBABA = "alibaba"


def example(load: float, seed: int) -> Feed:
    """Made-up requests."""
    return RequestFeed(Example(EXAMPLE_REQUESTS_PER_SECOND * load, seed))


def feed(path: Path, format_: Format, load: float, seed: int) -> Feed:
    """A trace. Raises `TraceError`.

    `load` is the rate of each service over the trace's; of ServeGen's clients it is the rate itself, in requests a
    second. A trace of device usage has no rate: it is taken as it is.
    """
    if format_ is Format.ALIBABA:
        usages, period = alibaba.read(path)
        return UsageFeed(usages, period, seed)
    if format_ is Format.SERVEGEN:
        return RequestFeed(Clients(servegen.read(path), load, seed))
    trace = plain.read(path) if format_ is Format.PLAIN else azure.read(path)
    return RequestFeed(Replay(trace, load, seed))

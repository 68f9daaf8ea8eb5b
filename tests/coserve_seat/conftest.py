"""Fixtures: an agent, and the seat of an engine without a model."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from coserve_seat.stranger import FLOATS, SIZES, Stranger
from riding_tuner.conftest import agent, sockets
from riding_tuner.matchmaker import Matchmaker

from rowen.crds.ride.messages import MOST_SEATS
from rowen.runtime.coserve.ride_link import RideLink
from rowen.runtime.coserve.seat.host import Host
from rowen.runtime.coserve.seat.seat import Seat
from rowen.runtime.coserve.task import Task, TaskUnsuitable
from rowen.runtime.tuning.fingerprint import model_digest

__all__ = ["agent", "sockets"]


def _check(task: Task) -> None:
    if any(int(sequence.tokens.max()) > 99 for sequence in task.sequences):
        raise TaskUnsuitable("a token outside of the vocabulary")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    most_lent_bytes = MOST_SEATS * FLOATS * 4
    return Host(tmp_path, torch.float32, 2, SIZES, most_tokens=64, most_lent_bytes=most_lent_bytes, check=_check)


@pytest.fixture
def seat(agent: Matchmaker, host: Host) -> Iterator[Seat]:
    seat = Seat(agent.engine_path, host, lambda: None)
    yield seat
    seat.close()


@pytest.fixture
def come(agent: Matchmaker, host: Host, seat: Seat) -> Iterator[Callable[[], Stranger]]:
    """Brings one more guest to the seat."""
    links = []

    def come() -> Stranger:
        link = RideLink(agent.job_path)
        links.append(link)
        while True:
            try:
                return Stranger(link.join(), model_digest(host.model))
            except ConnectionError:
                pass

    yield come
    for link in links:
        link.close()

"""Fixtures: a tiny model, data, an agent, and a job with engines."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from riding_tuner.engine import Engine, Start, host_of
from riding_tuner.instant import Instant
from riding_tuner.matchmaker import Matchmaker
from runtime.conftest import dataset, tiny_model
from runtime.tuning_runs import spec

from rowen.runtime.coserve.ride_link import RideLink
from rowen.runtime.tuning.adapter import add_adapter
from rowen.runtime.tuning.fingerprint import model_digest
from rowen.runtime.tuning.riding import ride as ride_module
from rowen.runtime.tuning.riding.ride import Ride
from rowen.runtime.tuning.riding.stand_in import RidingAdapter, load_stand_in

__all__ = ["dataset", "tiny_model"]


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder whose name is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="ride-") as folder:
        yield Path(folder)


@pytest.fixture
def agent(sockets: Path) -> Iterator[Matchmaker]:
    with Matchmaker(sockets) as agent:
        yield agent


@pytest.fixture
def adapter(tiny_model: Path) -> RidingAdapter:
    return RidingAdapter(add_adapter(load_stand_in(tiny_model), spec(tiny_model, tiny_model, tiny_model)))


@pytest.fixture
def learner(tiny_model: Path) -> Instant:
    return Instant(tiny_model)


@pytest.fixture
def ride(tiny_model: Path, adapter: RidingAdapter, sockets: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ride]:
    """Of a job that does not wait long between two questions."""
    monkeypatch.setattr(ride_module, "_LONGEST_DELAY_SECONDS", 0.1)
    ride = Ride(RideLink(str(sockets / "job")), model_digest(tiny_model), "Float32", adapter)
    yield ride
    ride.close()


@pytest.fixture
def engine(tiny_model: Path, learner: Instant, sockets: Path) -> Start:
    def start() -> Engine:
        # The last one's guest.
        learner.drop(0)
        return Engine(str(sockets / "engine"), host_of(tiny_model), learner)

    return start

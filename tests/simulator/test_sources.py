"""Sources: the same stretch gives the same requests, whatever is asked before, at the rate that was asked for."""

from math import gamma

import numpy as np
import pytest

from rowen.simulator.requests import Requests
from rowen.simulator.sources.clients import Clients
from rowen.simulator.sources.example import Example
from rowen.simulator.sources.replay import Replay
from rowen.simulator.sources.source import Source
from rowen.simulator.traces.servegen import Client, ClientWindow, Lengths

TRACE = Requests(np.arange(0.0, 1000.0, 2.0), np.full(500, 10.0), np.full(500, 5.0))
ONE = Lengths(np.array([7.0]), np.array([1.0]))


def clients(family: str, shape: float, scale: float) -> Clients:
    windows = (ClientWindow(1.0, family, shape, scale), ClientWindow(0.0, "", 0.0, 0.0))
    return Clients((Client(windows, (0.0,), ((ONE, ONE),)),), 0.5, seed=3)


SOURCES = [
    Replay(TRACE, 1.0, 1),
    Replay(TRACE, 0.3, 1),
    Replay(TRACE, 2.5, 1),
    Example(0.4, 1),
    clients("Gamma", 0.5, 2.0),
    clients("Weibull", 1.0, 1.0),
]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: type(source).__name__)
def test_stretches_put_together_are_the_whole(source: Source) -> None:
    whole = source.between(4, 0.0, 5000.0)
    parts = [source.between(4, start, start + 1250.0) for start in (0.0, 1250.0, 2500.0, 3750.0)]
    assert len(whole) > 100
    assert np.array_equal(np.concatenate([part.arrivals for part in parts]), whole.arrivals)
    assert np.array_equal(np.concatenate([part.outputs for part in parts]), whole.outputs)
    assert (np.diff(whole.arrivals) >= 0).all()
    assert whole.arrivals[0] >= 0.0
    assert whole.arrivals[-1] < 5000.0


@pytest.mark.parametrize("source", SOURCES[:4], ids=lambda source: type(source).__name__)
def test_services_do_not_get_the_same(source: Source) -> None:
    assert not np.array_equal(source.between(0, 0.0, 900.0).arrivals, source.between(1, 0.0, 900.0).arrivals)


@pytest.mark.parametrize("load", [0.25, 1.0, 1.75])
def test_a_replay_has_the_rate_that_was_asked_for(load: float) -> None:
    found = Replay(TRACE, load, 5).between(0, 0.0, 100_000.0)
    assert len(found) == pytest.approx(load * 50_000, rel=0.03)


def test_a_replayed_trace_begins_anew_after_a_mean_gap() -> None:
    found = Replay(TRACE, 1.0, 5).between(0, 0.0, 5000.0)
    assert np.diff(found.arrivals) == pytest.approx(2.0)


def test_a_single_request_is_replayed_every_second() -> None:
    found = Replay(TRACE.at(slice(0, 1)), 1.0, 5).between(0, 0.0, 10.0)
    assert len(found) == 10


@pytest.mark.parametrize(("family", "shape", "scale"), [("Gamma", 0.1, 10.0), ("Weibull", 1.0, 1.0)])
def test_clients_have_the_mean_rate_in_their_own_windows(family: str, shape: float, scale: float) -> None:
    found = clients(family, shape, scale).between(0, 0.0, 1200.0 * 60)
    # Half of the windows are without traffic, so the others have twice the mean.
    assert len(found) == pytest.approx(0.5 * 1200 * 60, rel=0.1)
    assert (found.arrivals % 1200.0 < 600.0).all()
    assert set(found.inputs.tolist()) == {7.0}


def test_a_client_whose_times_never_add_up_ends_all_the_same() -> None:
    """Weibull with a shape of 0.02: 1 / gamma(51) is the scale, and one time in many millions is the mean."""
    found = clients("Weibull", 0.02, 1.0 / gamma(51.0)).between(0, 0.0, 600.0)
    assert len(found) == 0


def test_the_example_has_days_and_nights() -> None:
    source = Example(0.5, 2)
    day = sum(len(source.between(service, 36_000.0, 50_400.0)) for service in range(20))
    night = sum(len(source.between(service, 0.0, 14_400.0)) for service in range(20))
    assert day > 2.5 * night
    whole = sum(len(source.between(service, 0.0, 86_400.0)) for service in range(20))
    assert whole == pytest.approx(20 * 0.5 * 86_400, rel=0.15)

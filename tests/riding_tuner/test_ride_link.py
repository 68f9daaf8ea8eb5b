"""A riding job's connection to agents that come and go."""

import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from riding_tuner.matchmaker import Matchmaker

from rowen.crds.ride.messages import EngineHello, EngineState, JobHello, StepSums, Welcome
from rowen.runtime.coserve import ride_link as ride_link_module
from rowen.runtime.coserve.ride_link import RideLink


def until(true: Callable[[], bool], act: Callable[[], object]) -> None:
    """Acts again and again until it is."""
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        act()
        time.sleep(0.005)


def test_a_joined_job_lets_the_next_agent_know(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ride_link_module, "_LOOK_SECONDS", 0.0)
    link = RideLink(str(sockets / "job"))
    with Matchmaker(sockets) as agent, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as engine:
        link.stay()
        engine.connect(agent.engine_path)
        engine.send(EngineHello().model_dump_json(by_alias=True).encode())
        engine.send(EngineState(sums=StepSums()).model_dump_json(by_alias=True).encode())
        until(lambda: agent.states != [], lambda: None)
        assert agent.hellos == []
        pair = link.join()
        for _ in range(5):
            link.stay()
        assert [hello.pair for hello in agent.hellos] == [True]
    link.stay()
    with Matchmaker(sockets) as agent:
        until(lambda: agent.hellos != [], link.stay)
        link.progress(1, 2, 3)
        until(lambda: agent.progress != [], lambda: None)
        assert [hello.pair for hello in agent.hellos] == [False]
        link.close()
        link.stay()
        assert len(agent.hellos) == 1
    pair.close()


class Clock:
    """In the place of `time`."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(ride_link_module, "time", clock)
    return clock


def test_an_agent_that_is_away_is_looked_for_every_two_seconds(
    sockets: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[float] = []
    connected = RideLink._connected

    def noted(link: RideLink, hello: JobHello) -> socket.socket:
        tries.append(clock.now - 100)
        return connected(link, hello)

    monkeypatch.setattr(RideLink, "_connected", noted)
    link = RideLink(str(sockets / "job"))
    link.stay()
    assert tries == []
    link.go_unpaired()

    def pass_time(until_seconds: float) -> None:
        while clock.now < 100 + until_seconds:
            link.stay()
            clock.now += 0.25

    pass_time(8)
    assert tries == [0, 0.5, 1.5, 3.5, 5.5, 7.5]
    with Matchmaker(sockets) as agent:
        pass_time(20)
        until(lambda: agent.hellos != [], lambda: None)
    assert tries[6:] == [9.5]
    # One that was there is missed soon, and looked for as soon as at first.
    pass_time(24)
    assert tries[7] <= 21
    assert tries[8] - tries[7] == 0.5
    link.close()
    pass_time(30)
    assert len(tries) <= 11


def test_an_agent_that_does_not_want_it_yet_is_asked_again(sockets: Path, clock: Clock) -> None:
    """As one that has not heard of the job's pod, after its start."""
    link = RideLink(str(sockets / "job"))
    link.go_unpaired()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(sockets / "job"))
        listener.listen()
        for _ in range(3):
            link.stay()
            clock.now += ride_link_module._LONGEST_PAUSE_SECONDS
            line, _ = listener.accept()
            with line:
                assert not JobHello.model_validate_json(line.recv(4096)).pair
                line.send(Welcome(reason="not known yet").model_dump_json(by_alias=True).encode())
    link.close()

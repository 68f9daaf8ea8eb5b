"""A riding job's connection to agents that come and go."""

import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from riding_tuner.matchmaker import Matchmaker

from rowen.crds.ride.messages import EngineHello, EngineState, StepSums
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

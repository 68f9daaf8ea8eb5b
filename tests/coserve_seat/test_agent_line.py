"""An engine's connection to an agent that does not want it."""

import selectors
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from rowen.crds.ride.messages import EngineState, StepSums, Welcome
from rowen.runtime.coserve.seat import agent_line
from rowen.runtime.coserve.seat.agent_line import AgentLine
from rowen.runtime.coserve.seat.disposal import Disposal

STATE = EngineState(sums=StepSums())


class Log:
    def __init__(self) -> None:
        self.said: list[str] = []

    def warning(self, event: str, *, reason: str) -> None:
        self.said.append(f"{event}: {reason}")


def never(*_: Any) -> None:
    raise AssertionError


def test_an_engine_that_is_refused_comes_ever_more_seldom(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, path = Log(), str(sockets / "engine")
    monkeypatch.setattr(agent_line, "log", log)
    with selectors.DefaultSelector() as selector, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as agent:
        agent.bind(path)
        agent.listen()
        line = AgentLine(path, selector, Disposal(), never, never)

        def hear() -> float:
            """Returns when it comes again, in seconds from now."""
            for key, events in selector.select(10):
                key.data(events)
            return line.tick(STATE, 0.0) - time.monotonic()

        def come() -> socket.socket:
            """When it is time to."""
            line.tick(STATE, line.tick(STATE, 0.0))
            return agent.accept()[0]

        waits = []
        for reason in ["another process has come in"] * 9 + ["version 2 is not spoken"]:
            with come() as end:
                end.send(Welcome(reason=reason).model_dump_json(by_alias=True).encode())
                waits.append(hear())
        assert log.said == [
            "the agent does not want this engine: another process has come in",
            "the agent does not want this engine: version 2 is not spoken",
        ]
        assert waits[0] <= 0.1
        assert 2 < waits[-1] <= 5
        with come():
            line.tick(STATE, line.tick(STATE, 0.0))
        assert hear() <= 0.1
        line.close()

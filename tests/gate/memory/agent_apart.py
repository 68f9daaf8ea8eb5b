"""A node's agent in a process of its own, that may be killed. It serves a `NodeRig`'s device, and tells of its pool."""

import json
import pickle
import select
import subprocess
import sys
import time
from dataclasses import asdict
from typing import Any

import structlog
from gate.memory.node_rig import DEVICE, WINDOW, NodeRig
from gate.test_failures import agent_environment

from rowen.node_agent.attach.offence import Evict, Reason
from rowen.node_agent.node import Node

_LEASE_SECONDS = 2.0


class AgentApart:
    """The process."""

    def __init__(self, rig: NodeRig) -> None:
        """Starts it; the device must be nobody's. It serves from then on."""
        given = pickle.dumps((rig.settings, rig.config, rig.holders(), list(rig.views.values()))).hex()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gate.memory.agent_apart", given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=agent_environment(),
        )
        assert self._line() == "serving"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def pool(self) -> dict[str, Any]:
        """The fields of `PoolStatus`; `pids` by member, and how often somebody `kept` memory that was not granted."""
        assert self.process.stdin is not None
        self.process.stdin.write("pool\n")
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self._line())
        return found

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def _pool(node: Node, kept: int) -> dict[str, Any]:
    loans = node.devices[DEVICE].gate.loans
    assert loans is not None
    pids = {str(number): borrower.pid for number, borrower in dict(loans.borrowers).items()}
    return {**asdict(loans.status()), "pids": pids, "kept": kept}


def _serve(given: str) -> None:
    settings, config, holders, views = pickle.loads(bytes.fromhex(given))
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    node = Node(settings, [config])
    kept = 0
    print("serving", flush=True)
    while True:
        node.devices[DEVICE].gate.renew(time.monotonic() + _LEASE_SECONDS)
        node.place(holders, views)
        node.sample(WINDOW)
        decisions = [notice.decision for notice in node.notices()]
        kept += sum(isinstance(each, Evict) and each.reason is Reason.KEPT_MEMORY for each in decisions)
        if select.select([sys.stdin], [], [], 0.05)[0]:
            if not sys.stdin.readline():
                return
            print(json.dumps(_pool(node, kept)), flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1])

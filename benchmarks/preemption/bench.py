"""A device with an engine on it, and the tenants that are stopped for the engine."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from preemption.engine import Load
from preemption.record import Record, Run, make, united
from reporting.jitter import Jitter
from rig.child import ask, command, read, running
from rig.served_device import ServedDevice

from rowen.node_agent.devices.counts import Closing
from rowen.node_agent.native import library_path

GAP_SECONDS = 0.004
"""Between two decode steps. Above the gate's floor of 2 ms, so that an engine that says idle there is taken at its
word."""
STEPS = 4
_RECORD_LIMIT = 5.0
_FOR_EVER = 24 * 3600.0


@dataclass(frozen=True)
class Served:
    """What was seen of some requests. Times in seconds or, where the name says so, in nanoseconds."""

    requests: Sequence[tuple[int, int]]
    """Begin and end of each, as the engine wrote them down; nanoseconds."""
    runs: Sequence[Run]
    """When any of the tenants ran, as they wrote it down."""
    closings: Sequence[Closing]
    """Closes for requests, as the agent saw them."""
    preemptions: Sequence[int]
    """Of each request, as the agent counted them."""


@dataclass(frozen=True)
class _Tenant:
    """One that has loaded and waits."""

    record: Path
    process: "subprocess.Popen[str]"


def _begun(tenant: _Tenant) -> Path:
    """Its record, to which it writes from now on."""
    ask(tenant.process, "begin")
    return tenant.record


class Bench:
    """A device of the machine's last CPU; each way has its own, so that none inherits another's decode gaps."""

    def __init__(self, stack: ExitStack, jitter: Jitter, seed: int, *, backstop: float, pods: bool) -> None:
        """`backstop`: seconds until the kernel stops who has not acknowledged; `pods`: whether it may stop anybody."""
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
        self.cpu = max(os.sched_getaffinity(0))
        self.served = ServedDevice(self._folder, slots=4, cpu=self.cpu, backstop=backstop)
        stack.callback(self.served.close)
        if pods:
            self.served.make_pods(with_share=True)
        self.device = self.served.device
        self.device.renew(time.monotonic() + _FOR_EVER)
        engine = command("preemption.engine", library_path(), self.served.socket(None))
        self._engine = stack.enter_context(running(engine, {}))
        read(self._engine)
        self._jitter = jitter
        self._seed = seed
        self._numbers = count()

    def _record(self) -> Path:
        return make(self._folder / f"record-{next(self._numbers)}")

    @contextmanager
    def tenants(self, number: int, threads: int) -> Iterator[list[Path]]:
        """So many tenants behind the gate, each with so many threads; yields their records."""
        with ExitStack() as stack:
            # None begins before all have loaded: on a CPU that hundreds of threads use, that takes minutes.
            tenants = [self._tenant(stack, slot, threads) for slot in range(number)]
            yield [_begun(tenant) for tenant in tenants]

    @contextmanager
    def stubborn_tenant(self) -> Iterator[list[Path]]:
        """A tenant behind the gate that blocks the signal which is to stop it."""
        with ExitStack() as stack:
            yield [_begun(self._tenant(stack, 0, 2, "--blocks-signal"))]

    @contextmanager
    def foreign_tenant(self) -> Iterator[list[Path]]:
        """A tenant that has not loaded the gate library, as a static program has not."""
        with ExitStack() as stack:
            yield [_begun(self._tenant(stack, 0, 2, "--cpu", self.cpu, gated=False))]

    def _tenant(self, stack: ExitStack, slot: int, threads: int, *more: object, gated: bool = True) -> _Tenant:
        record = self._record()
        environment = self.served.tenant_environment(slot) if gated else {}
        program = command("preemption.tenant", record, threads, *more)
        tenant = stack.enter_context(running(program, environment))
        self.served.adopt(slot, tenant.pid)
        read(tenant)
        return _Tenant(record, tenant)

    @contextmanager
    def stepping_tenant(self) -> Iterator[list[Path]]:
        """A tenant that looks at the gate between its steps."""
        record = self._record()
        with running(command("preemption.stepping", record, self.served.socket(0), self.cpu), {}) as tenant:
            read(tenant)
            yield [record]

    def serve(self, records: Sequence[Path], requests: int, seconds: float, **other: float) -> Served:
        """Serves so many requests, or as many as go into the seconds. `other`: fields of `Load`."""
        self._seed += 1
        settings = {"steps": STEPS, "every_gap": False, **other}
        load = Load(requests, seconds, gap=GAP_SECONDS, seed=self._seed, records=tuple(map(str, records)), **settings)
        closed = max((closing.number for closing in self.device.closings(0)), default=0)
        before = max((request.number for request in self.device.requests(0)), default=0)
        with self._jitter.measured():
            handled = [(begin, end) for begin, end in json.loads(ask(self._engine, load.to_json()))]
        return Served(
            handled,
            united(Record(path).runs() for path in records),
            [closing for closing in self.device.closings(closed) if closing.for_request],
            self._preemptions(before, len(handled)),
        )

    def _preemptions(self, after: int, number: int) -> list[int]:
        end = time.monotonic() + _RECORD_LIMIT
        while len(found := self.device.requests(after)) < number:
            if time.monotonic() > end:
                raise RuntimeError(f"the agent has recorded {len(found)} of {number} requests")
            time.sleep(0.01)
        return [request.preemptions for request in found]

"""Two real vLLM servers and a batch worker on one core, without Kubernetes.

One server has Rowen's plugin and takes batch rows in; the worker, with an engine of its own, stands behind its gate.
The other is vLLM as it is, with its priority scheduling. Requests go to one of them at a time; a server without
requests sleeps.
"""

import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from colocation.device_gate import Gate
from coserving.load import Size, poisson
from rig.processes import with_plugin
from rig.two_servers import CORE, MODEL, SERVERS, TwoServers
from rig.wide_model import widen

from rowen.crds.job.worker import BatchSpec, Location, ModelLocation
from rowen.crds.names import ENGINE_RIDE_SOCKET_ENV, JOB_SPEC_ENV, RIDE_TERMS_ENV
from rowen.crds.ride.terms import RideTerms
from rowen.demo import samples
from rowen.node_agent.ride.door import EngineDoorway, RideDoor
from rowen.runtime.batch.memory import OVERHEAD_BYTES
from rowen.runtime.batch.precision import FLOAT32
from rowen.runtime.batch.weights import weights_bytes

Body = dict[str, Any]
"""Of a request."""

OFFLINE = Size(prompt=(64, 384), output=32)
"""Of a row, in tokens: more is read than written, as when texts are summarized."""
_WORKER = "worker"
_WORKER_ROWS, _WORKER_CACHE_BYTES = 4000, 128 * 2**20
_DEVICE = "0"
_RENEW_SECONDS = 0.25


def rows(count: int, seed: str) -> list[Body]:
    """Bodies of completion requests, without their model; of random tokens, so that no prefix of others' is cached."""
    found = poisson(1.0, 2.0 * count, OFFLINE, seed)[:count]
    wanted = {"max_tokens": OFFLINE.output, "ignore_eos": True, "temperature": 0}
    return [{"prompt": list(request.prompt), **wanted} for request in found]


class RowNode:
    """The servers and the worker, each once it was started."""

    def __init__(self, folder: Path, pages: Path) -> None:
        """Writes the model into `folder`; `pages`: of shared memory."""
        self._folder = folder
        self._gate = Gate(pages / "gate", CORE)
        self._ride_socket = pages / "ride" / "engine"
        self._door = RideDoor()
        self._door.open(EngineDoorway(self._ride_socket, _DEVICE, lambda _: "engine"), [])
        self._door.start()
        self._processes = TwoServers(folder)
        self._ended = threading.Event()
        self._renewer = threading.Thread(target=self._renew, daemon=True)
        self._renewer.start()
        with contextlib.redirect_stdout(sys.stderr):
            samples.write_model(folder / MODEL, samples.SHAPE)
            samples.write_lines(folder / "rows.jsonl", _batch(rows(_WORKER_ROWS, "worker")))
        widen(folder / MODEL)

    def url(self, server: str) -> str:
        """Of one of `SERVERS`."""
        return self._processes.url(server)

    def start_server(self, server: str, terms: RideTerms | None = None) -> None:
        """Starts one; `terms`: on which Rowen's takes rows in."""
        if server == "plain":
            self._processes.serve(server, ["--scheduling-policy", "priority"], {})
            return
        own = {ENGINE_RIDE_SOCKET_ENV: str(self._ride_socket)} | with_plugin(self._folder)
        if terms is not None:
            own[RIDE_TERMS_ENV] = terms.model_dump_json(by_alias=True)
        self._processes.serve(server, [], self._gate.online_environment() | own)

    def start_worker(self) -> None:
        """Starts the batch worker; once it computes, the gate is held closed but for `worker_runs`."""
        model = self._folder / MODEL
        spec = BatchSpec(
            model=ModelLocation(name_or_path=str(model)),
            input=Location(where=str(self._folder / "rows.jsonl")),
            output=Location(where=str(self._folder / "answers.jsonl")),
            args=["--dtype=float32"],
            memory_bytes=OVERHEAD_BYTES + weights_bytes(model, FLOAT32) + _WORKER_CACHE_BYTES,
        )
        environment = self._gate.tenant_environment() | {JOB_SPEC_ENV: json.dumps(spec.to_wire())}
        command = [sys.executable, "-m", "rowen.runtime.batch"]
        self._gate.adopt(self._processes.start(_WORKER, command, environment))

    def wait_ready(self, limit: float) -> None:
        """Until all that was started serves or computes, each server with its model on the device's core.

        Raises:
            RuntimeError: It takes more than `limit` seconds, or one of them ended.
        """
        deadline = time.monotonic() + limit
        for name in self._processes.names:
            while not (self._processes.answers(name) if name in SERVERS else self._gate.tokens() > 0):
                self._processes.check(deadline)
                time.sleep(0.2)
            if name == _WORKER:
                self._gate.hold(True)
        self._processes.settle()

    @contextlib.contextmanager
    def worker_runs(self) -> Iterator[None]:
        """The gate is opened whenever the engine with the plugin is idle."""
        self._gate.hold(False)
        try:
            yield
        finally:
            self._gate.hold(True)

    def riding_tokens(self) -> int:
        """Of rows that rode in the server with Rowen's plugin so far, as it tells."""
        engine = self._door.engine(_DEVICE)
        return engine.sums.row_tokens if engine is not None and engine.sums is not None else 0

    def worker_tokens(self) -> int:
        """That the worker has computed so far."""
        return self._gate.tokens()

    def _renew(self) -> None:
        while not self._ended.wait(_RENEW_SECONDS):
            self._gate.renew()

    def close(self) -> None:
        """Ends everything."""
        self._processes.close()
        self._ended.set()
        self._renewer.join()
        self._door.close()
        self._gate.close()


def _batch(bodies: list[Body]) -> Iterator[Body]:
    for number, body in enumerate(bodies):
        yield {
            "custom_id": f"row-{number}",
            "method": "POST",
            "url": "/v1/completions",
            "body": body | {"model": MODEL},
        }

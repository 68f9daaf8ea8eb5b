"""Two real vLLM servers and four fine-tuning jobs on one core, without Kubernetes.

One server has Rowen's plugin, and a device of a real agent's: jobs ride in it, or stand behind its gate. The other is
vLLM as it is. Requests go to one of them at a time; a server without requests sleeps. Jobs stand still until an arm has
need of one.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from colocation.sharing import members, pin
from coserving.device import RidingDevice
from coserving.reports import Report, read_reports
from coserving.turns import TURNS_ENV, Mode, Turns
from rig.processes import MODEL_PROCESS, answers, every_core, free_port, start
from rig.tuning_job import tuning_spec
from rig.wide_model import widen

from rowen.crds.names import JOB_SPEC_ENV, RIDE_TERMS_ENV
from rowen.crds.ride.terms import RideTerms
from rowen.demo import samples

CORE = 1
MODEL = samples.MODEL
SERVERS = ("plain", "rowen")
TUNERS = {"free": 256, "chunked": 16, "gated": 256, "rider": 256}
"""Job → tokens of each of its sequences, of which an iteration has one."""
ALONE_TUNERS = ("free", "chunked")
"""Jobs that need no server: they are on the device's core as any process is."""
_ROWS = 64
_LEASE_SECONDS, _RENEW_SECONDS = 2.0, 0.25
_END_SECONDS = 20.0
_HOLD_SECONDS = 120.0
_ENGINE_ARGUMENTS = [
    "--distributed-executor-backend", "vllm.v1.executor.uniproc_executor.UniProcExecutor",
    "--enforce-eager",
    "--dtype=float32", "--max-model-len=512", "--max-num-seqs=16", "--kv-cache-memory-bytes=256M",
]  # fmt: skip


class CoservingNode:
    """The servers and jobs, each once it was started."""

    def __init__(self, folder: Path, pages: Path) -> None:
        """Writes the model into `folder`; `pages`: of shared memory."""
        self._folder = folder
        self._device = RidingDevice(pages, CORE)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._urls = {server: f"http://127.0.0.1:{free_port()}" for server in SERVERS}
        self._ended = threading.Event()
        self._renewer = threading.Thread(target=self._renew, daemon=True)
        self._renewer.start()
        with contextlib.redirect_stdout(sys.stderr):
            samples.write_model(folder / MODEL, samples.SHAPE)
            widen(folder / MODEL)
            samples.write_lines(folder / "rows.jsonl", _rows())

    def _renew(self) -> None:
        while not self._ended.wait(_RENEW_SECONDS):
            self._device.renew(time.monotonic() + _LEASE_SECONDS)

    def url(self, server: str) -> str:
        """Of one of `SERVERS`."""
        return self._urls[server]

    def start_server(self, server: str, terms: RideTerms | None = None) -> None:
        """Starts one; `terms`: on which Rowen's takes riders in."""
        command = [
            sys.executable, "-m", "vllm.entrypoints.openai.api_server",
            "--model", str(self._folder / MODEL), "--served-model-name", MODEL,
            "--host", "127.0.0.1", "--port", self.url(server).rpartition(":")[2], *_ENGINE_ARGUMENTS,
        ]  # fmt: skip
        if server == "plain":
            turning = os.pathsep.join(str(self._page(tuner)) for tuner in ALONE_TUNERS)
            command += ["--scheduler-cls", "coserving.turn_scheduler.TurnScheduler"]
            environment = {TURNS_ENV: turning}
        else:
            environment = self._device.engine_environment()
            environment |= {RIDE_TERMS_ENV: terms.model_dump_json()} if terms is not None else {}
        with every_core(CORE):
            self._processes[server] = start(self._folder, server, command, environment)

    def start_tuner(self, tuner: str) -> None:
        """Starts one of `TUNERS`, which stands still after its first report."""
        page = self._page(tuner)
        Turns(page).start()
        # One that was ended before begins at the beginning.
        self._reports(tuner).unlink(missing_ok=True)
        shutil.rmtree(self._folder / f"adapter-{tuner}", ignore_errors=True)
        spec = tuning_spec(
            str(self._folder / MODEL),
            str(self._folder / "rows.jsonl"),
            str(self._folder / f"adapter-{tuner}"),
            epochs=1000,
            batch_size=1,
            sequence_length=TUNERS[tuner],
            learning_rate=0.0001,
            checkpoint_steps=100000,
            seed=0,
        )
        environment = {TURNS_ENV: str(page), JOB_SPEC_ENV: json.dumps(spec.to_wire())}
        environment |= self._device.tuner_environment(tuner)
        command = [sys.executable, "-m", "coserving.tuner", str(self._reports(tuner))]
        with _on({CORE} if tuner in ALONE_TUNERS else os.sched_getaffinity(0)):
            self._processes[tuner] = start(self._folder, tuner, command, environment)
        self._device.adopt(tuner, self._processes[tuner].pid)

    def wait_ready(self, limit: float) -> None:
        """Until all that was started serves or stands still, each server with its model on the device's core.

        Raises:
            RuntimeError: It takes more than `limit` seconds, or one of them ended.
        """
        deadline = time.monotonic() + limit
        for name in self._processes:
            while not (answers(self.url(name)) if name in SERVERS else self.turns(name).parked):
                self.check(deadline)
                time.sleep(0.2)
        for server in SERVERS:
            for process in self.members(server):
                runs_model = MODEL_PROCESS in Path(f"/proc/{process}/cmdline").read_bytes()
                pin(process, {CORE} if runs_model else os.sched_getaffinity(0))

    def check(self, deadline: float) -> None:
        """Raises `RuntimeError` where one of them has ended, or it is too late."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                end = (self._folder / f"{name}.log").read_text(errors="replace")[-3000:]
                raise RuntimeError(f"{name} ended with {process.returncode}:\n{end}")
        if time.monotonic() > deadline:
            raise RuntimeError("servers and jobs are not ready, or do not stand still, in time")

    def members(self, name: str) -> list[int]:
        """Processes of a server or a job; none where it was not started."""
        return members(self._processes[name].pid) if name in self._processes else []

    def model_process(self, server: str) -> int:
        """That runs the model."""
        for process in self.members(server):
            if MODEL_PROCESS in Path(f"/proc/{process}/cmdline").read_bytes():
                return process
        raise RuntimeError(f"{server} has no process of its model")

    def tuner_process(self, tuner: str) -> int:
        """Of a job."""
        return self._processes[tuner].pid

    def turns(self, tuner: str) -> Turns:
        """By which a job takes turns."""
        return Turns(self._page(tuner))

    def hold(self, tuner: str) -> None:
        """Returns when the job stands still. Raises `RuntimeError` as `check` does."""
        turns, deadline = self.turns(tuner), time.monotonic() + _HOLD_SECONDS
        turns.mode = Mode.HELD
        while not turns.parked:
            self.check(deadline)
            time.sleep(0.01)

    def reports(self, tuner: str) -> list[Report]:
        """What a job has done so far."""
        return read_reports(self._reports(tuner))

    def _page(self, tuner: str) -> Path:
        return self._folder / f"{tuner}.turns"

    def _reports(self, tuner: str) -> Path:
        return self._folder / f"{tuner}.reports"

    def end(self, name: str) -> None:
        """Ends a server or a job, with its children."""
        process = self._processes.pop(name, None)
        if process is None:
            return
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        """Ends everything."""
        for name in list(self._processes):
            self.end(name)
        self._ended.set()
        self._renewer.join()
        self._device.close()


@contextlib.contextmanager
def _on(cores: set[int]) -> Iterator[None]:
    """What is started meanwhile runs on these."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def _rows() -> Iterator[dict[str, str]]:
    """Long enough to fill the longest sequence."""
    texts = (f"{row['prompt']}{row['completion']}" for row in samples.dialogues(_ROWS * 16))
    for _ in range(_ROWS):
        yield {"text": " ".join(next(texts) for _ in range(16))}

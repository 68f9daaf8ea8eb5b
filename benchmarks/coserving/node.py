"""Two real vLLM servers and four fine-tuning jobs on one core, without Kubernetes.

One server has Rowen's plugin, and a device of a real agent's: jobs ride in it, or stand behind its gate. The other is
vLLM as it is. Requests go to one of them at a time; a server without requests sleeps. Jobs stand still until an arm has
need of one.
"""

import contextlib
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from coserving.device import RidingDevice
from coserving.marking import marking
from coserving.marks import MARKS_ENV, Marks, tokens_between
from coserving.reports import Report, read_reports
from coserving.slowdowns import SLOWDOWNS_ENV, Beside, read_slowdowns
from coserving.turns import TURNS_ENV, Mode, Turns
from rig.tuning_job import tuning_spec
from rig.two_servers import CORE, MODEL, SERVERS, TwoServers
from rig.wide_model import widen

from rowen.crds.names import JOB_SPEC_ENV, RIDE_TERMS_ENV, SPATIAL_TERMS_ENV
from rowen.crds.ride.terms import RideTerms, SpatialTerms
from rowen.demo import samples

OTHER_MODEL = "other"
OTHER_SHAPE = samples.Shape(layers=4, hidden=384, intermediate=1024, heads=6, key_value_heads=2)
RIDER = "rider"
TUNERS = {"free": 256, "chunked": 16, "gated": 256, RIDER: 256}
"""Job → tokens of each of its sequences, of which an iteration has one."""
ALONE_TUNERS = ("free", "chunked")
"""Jobs that need no server: they are on the device's core as any process is."""
_ROWS = 64
_LEASE_SECONDS, _RENEW_SECONDS = 2.0, 0.25
_HOLD_SECONDS = 120.0


class CoservingNode:
    """The servers and jobs, each once it was started."""

    def __init__(self, folder: Path, pages: Path, *, shares: bool = False) -> None:
        """Writes the model into `folder`; `pages`: of shared memory.

        `shares`: the device is shared in space (`SpatialTerms`), with a job of another model.
        """
        self._folder = folder
        self._tuned = OTHER_MODEL if shares else MODEL
        self.device = RidingDevice(pages, CORE, shares=shares)
        self.processes = TwoServers(folder)
        self._ended = threading.Event()
        self._renewer = threading.Thread(target=self._renew, daemon=True)
        self._renewer.start()
        with contextlib.redirect_stdout(sys.stderr):
            samples.write_model(folder / MODEL, samples.SHAPE)
            widen(folder / MODEL)
            if shares:
                samples.write_model(folder / OTHER_MODEL, OTHER_SHAPE)
                widen(folder / OTHER_MODEL)
            samples.write_lines(folder / "rows.jsonl", _rows())

    def _renew(self) -> None:
        while not self._ended.wait(_RENEW_SECONDS):
            self.device.renew(time.monotonic() + _LEASE_SECONDS)

    def url(self, server: str) -> str:
        """Of one of `SERVERS`."""
        return self.processes.url(server)

    def start_server(self, server: str, terms: RideTerms | SpatialTerms | None = None) -> None:
        """Starts one; `terms`: on which Rowen's takes riders in, or leaves a share of the device."""
        if server == "plain":
            turning = os.pathsep.join(str(self._page(tuner)) for tuner in ALONE_TUNERS)
            scheduler = ["--scheduler-cls", "coserving.turn_scheduler.TurnScheduler"]
            self.processes.serve(server, scheduler, {TURNS_ENV: turning})
            return
        name = SPATIAL_TERMS_ENV if isinstance(terms, SpatialTerms) else RIDE_TERMS_ENV
        own = {name: terms.model_dump_json()} if terms is not None else {}
        own[SLOWDOWNS_ENV] = str(self._slowdowns)
        environment = marking(self._folder, self._marks(RIDER), self.device.engine_environment() | own)
        self.processes.serve(server, [], environment)

    def start_tuner(self, tuner: str) -> None:
        """Starts one of `TUNERS`, which stands still after its first report."""
        page = self._page(tuner)
        Turns(page).start()
        # One that was ended before begins at the beginning.
        self._reports(tuner).unlink(missing_ok=True)
        shutil.rmtree(self._folder / f"adapter-{tuner}", ignore_errors=True)
        spec = tuning_spec(
            str(self._folder / self._tuned),
            str(self._folder / "rows.jsonl"),
            str(self._folder / f"adapter-{tuner}"),
            epochs=1000,
            batch_size=1,
            sequence_length=TUNERS[tuner],
            learning_rate=0.0001,
            checkpoint_steps=100000,
            seed=0,
        )
        program = [sys.executable, "-m", "coserving.tuner", str(self._reports(tuner))]
        command, given = self.device.entering(tuner, program)
        environment = {TURNS_ENV: str(page), JOB_SPEC_ENV: json.dumps(spec.to_wire())} | given
        if tuner != RIDER:
            self._marks(tuner).unlink(missing_ok=True)
            environment[MARKS_ENV] = str(self._marks(tuner))
        with _on({CORE} if tuner in ALONE_TUNERS else os.sched_getaffinity(0)):
            self.processes.start(tuner, command, environment)

    def wait_ready(self, limit: float) -> None:
        """Until all that was started serves or stands still, each server with its model on the device's core.

        Raises:
            RuntimeError: It takes more than `limit` seconds, or one of them ended.
        """
        deadline = time.monotonic() + limit
        for name in self.processes.names:
            while not (self.processes.answers(name) if name in SERVERS else self.turns(name).parked):
                self.processes.check(deadline)
                time.sleep(0.2)
        self.processes.settle()

    def turns(self, tuner: str) -> Turns:
        """By which a job takes turns."""
        return Turns(self._page(tuner))

    def hold(self, tuner: str) -> None:
        """Returns when the job stands still. Raises `RuntimeError` where it does not."""
        turns, deadline = self.turns(tuner), time.monotonic() + _HOLD_SECONDS
        turns.mode = Mode.HELD
        while not turns.parked:
            self.processes.check(deadline)
            time.sleep(0.01)

    def reports(self, tuner: str) -> list[Report]:
        """What a job has done so far."""
        return read_reports(self._reports(tuner))

    def tokens(self, tuner: str, start: float, end: float) -> float:
        """That a job has worked through between two moments. Raises `RuntimeError` where that cannot be told."""
        return tokens_between(Marks.read(self._marks(tuner)), self.reports(tuner), start, end)

    def online_seconds(self, start: float, end: float) -> float:
        """That Rowen's server worked for requests between two moments, less what riders added to its steps."""
        return Marks.read(self._marks(RIDER)).online_between(start, end)

    def held_steps(self, start: float, end: float) -> float:
        """Steps of Rowen's server between two moments that prompts were held back from."""
        return Marks.read(self._marks(RIDER)).held_between(start, end)

    def slowdowns(self, since: float) -> list[Beside]:
        """Steps of Rowen's server beside offline work that ended after that moment."""
        return read_slowdowns(self._slowdowns, since)

    @property
    def _slowdowns(self) -> Path:
        return self._folder / "slowdowns"

    def _page(self, tuner: str) -> Path:
        return self._folder / f"{tuner}.turns"

    def _marks(self, tuner: str) -> Path:
        return self._folder / f"{tuner}.marks"

    def _reports(self, tuner: str) -> Path:
        return self._folder / f"{tuner}.reports"

    def close(self) -> None:
        """Ends everything."""
        self.processes.close()
        self._ended.set()
        self._renewer.join()
        self.device.close()


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

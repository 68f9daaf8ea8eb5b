"""A stand-in for the agent: joins jobs with the engine that is connected."""

import selectors
import socket
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from rowen.crds.ride.messages import EngineHello, EngineState, Guest, JobHello, JobProgress, Leaver, Welcome
from rowen.runtime.coserve.wire.line import send


class Matchmaker:
    """Listens in a folder until it is stopped."""

    def __init__(self, folder: Path) -> None:
        self.engine_path, self.job_path = str(folder / "engine"), str(folder / "job")
        self.states: list[EngineState] = []
        self.hellos: list[JobHello] = []
        self.progress: list[JobProgress] = []
        self.reason = "no engine"
        self.pod: str | None = None
        """Whose all jobs are; None: each has one of its own."""
        self._engine: socket.socket | None = None
        self._selector = selectors.DefaultSelector()
        self._stop, stopped = socket.socketpair()
        self._selector.register(stopped, selectors.EVENT_READ, None)
        for path, hear in ((self.engine_path, self._hear_engine), (self.job_path, self._hear_job)):
            Path(path).unlink(missing_ok=True)
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            listener.bind(path)
            listener.listen()
            self._selector.register(listener, selectors.EVENT_READ, partial(self._accept, listener, hear))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends, and hangs up on everybody."""
        self._stop.close()
        self._thread.join()

    def dismiss(self, pod: str, **changes: Any) -> None:
        """Tells the engine that the pod's guest is to go."""
        assert self._engine is not None
        send(self._engine, Leaver(left=pod).model_copy(update=changes).model_dump_json(by_alias=True).encode())

    def __enter__(self) -> "Matchmaker":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    for other in list(self._selector.get_map().values()):
                        other.fileobj.close()
                    self._selector.close()
                    return
                key.data()

    def _accept(self, listener: socket.socket, hear: Any) -> None:
        line, _ = listener.accept()
        self._selector.register(line, selectors.EVENT_READ, partial(self._hear, line, hear))

    def _hear(self, line: socket.socket, hear: Any) -> None:
        try:
            data = line.recv(65536)
        except ConnectionError:
            # It has hung up without reading all; what it has said before comes yet, and then the end.
            return
        if data:
            hear(line, data)
            return
        if line is self._engine:
            self._engine = None
        self._drop(line)

    def _drop(self, line: socket.socket) -> None:
        self._selector.unregister(line)
        line.close()

    def _hear_engine(self, line: socket.socket, data: bytes) -> None:
        EngineHello.model_validate_json(data)
        self._engine = line
        # Also when the next engine has come in before all that this one has said is heard.
        self._selector.modify(line, selectors.EVENT_READ, partial(self._hear, line, self._hear_state))

    def _hear_state(self, _: socket.socket, data: bytes) -> None:
        self.states.append(EngineState.model_validate_json(data))

    def _hear_job(self, line: socket.socket, data: bytes) -> None:
        if b"completed" in data:
            self.progress.append(JobProgress.model_validate_json(data))
            return
        hello = JobHello.model_validate_json(data)
        self.hellos.append(hello)
        if not hello.pair:
            _welcome(line, Welcome())
        elif self._engine is None:
            _welcome(line, Welcome(reason=self.reason))
            self._drop(line)
        else:
            mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with mine, its:
                guest = Guest(number=len(self.hellos), pod=self.pod or f"pod-{len(self.hellos)}")
                try:
                    send(self._engine, guest.model_dump_json().encode(), [its.fileno()])
                except ConnectionError:
                    # It has hung up meanwhile, and the job asks again.
                    self._drop(line)
                    return
                _welcome(line, Welcome(), mine.fileno())


def _welcome(line: socket.socket, message: Welcome, *descriptors: int) -> None:
    # Where the job has hung up meanwhile, what it has said before is heard yet.
    with suppress(ConnectionError):
        send(line, message.model_dump_json().encode(), descriptors)

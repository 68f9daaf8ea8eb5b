"""The part of the device's pool that a `memoryLimit` gives this process."""

import errno
import os
import time

from rowen.crds.job.worker import ExitCode
from rowen.crds.names import POOL_BYTES_ENV
from rowen.runtime import native
from rowen.runtime.failure import WorkerError
from rowen.runtime.log import get_logger
from rowen.runtime.memory.part import PoolPart

log = get_logger()

_RETRY_SECONDS = 0.1
_WORKER_SECONDS = 10.0


def pool_bytes() -> int:
    """What this process may have of the pool, in bytes; 0 without a `memoryLimit`. Raises `ValueError`."""
    text = os.environ.get(POOL_BYTES_ENV, "0")
    if not text.isdecimal():
        raise ValueError(f"{POOL_BYTES_ENV} must be a number of bytes, not {text!r}")
    return int(text)


def open_part(patience_seconds: float) -> PoolPart | None:
    """Opens this process's arena; once per process.

    None, said in the log, where the device has no pool, where there is no device, and where no agent has answered in
    that time; and without a `memoryLimit`. Raises `OSError` when the memory is refused, and as `pool_bytes` does.
    """
    most = pool_bytes()
    if not most:
        return None
    memory = _memory(patience_seconds)
    if memory is None:
        log.warning("this process has nothing of a device's pool, and keeps to memory of its own", pool_bytes=most)
        return None
    arena = memory.arena
    wanted = most // arena.handle_bytes
    handles = min(arena.capacity, wanted)
    log.info("this process has a part of the device's pool", handles=handles, handle_bytes=arena.handle_bytes)
    return PoolPart(arena, handles, memory.ledger, asked_bytes=most if wanted > handles else None)


def worker_part() -> PoolPart | None:
    """An offline worker's part, as `open_part`: the gate has let it in, so there is an agent. Raises `WorkerError`."""
    try:
        return open_part(_WORKER_SECONDS)
    except OSError as error:
        raise WorkerError("Failed", f"the device's pool cannot be used: {error}", ExitCode.RETRY) from error


def _memory(patience_seconds: float) -> native.Memory | None:
    """None where there is no device, no pool, or no agent in that time. Raises `OSError`."""
    begin, waits = time.monotonic(), False
    while True:
        try:
            return native.memory()
        except OSError as error:
            if error.errno != errno.ENOTCONN:
                raise
        if time.monotonic() - begin >= patience_seconds:
            log.warning("Rowen's agent has not answered", waited_seconds=patience_seconds)
            return None
        if not waits:
            log.info("waiting for Rowen's agent and the device's pool", at_most_seconds=patience_seconds)
        waits = True
        time.sleep(_RETRY_SECONDS)

"""A gate before a core that can be held closed; shared by benchmarks."""

import os
import subprocess
import sys
import time
from pathlib import Path

from rowen.crds.names import DEVICE_PAGE_ENV, LIBRARY_ENV, TENANT_PAGE_ENV
from rowen.node_agent.device import Device
from rowen.node_agent.native import library_path

_LEASE = 2.0
_STOP_LIMIT = 5.0
_IDLE_ENGINE = """
import ctypes, os, sys
library = ctypes.CDLL(os.environ["ROWEN_LIBRARY"])
assert library.rowen_online_attach(os.fsencode(os.environ["ROWEN_DEVICE_PAGE"])) >= 0
print("attached", flush=True)
sys.stdin.read()
"""


class Gate:
    """A device of the core with its pages; held closed by letting its lease run out."""

    def __init__(self, directory: Path, core: int) -> None:
        """Makes the pages in `directory` and starts to serve the gate before `core`."""
        self._held = False
        self.device = Device(directory, slots=1, cpus=[core], backstop=0.05)
        self.renew()
        self.device.start()
        self._directory = directory
        # A gate opens only for an engine; this one is never busy.
        self._engine = subprocess.Popen(
            [sys.executable, "-c", _IDLE_ENGINE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | self.online_environment(),
        )
        assert self._engine.stdout is not None
        if self._engine.stdout.readline() != "attached\n":
            raise RuntimeError("the idle engine could not attach to the gate")

    def online_environment(self) -> dict[str, str]:
        """What the device plugin would give an engine."""
        return {LIBRARY_ENV: str(library_path()), DEVICE_PAGE_ENV: str(self._directory / "device.page")}

    def tenant_environment(self) -> dict[str, str]:
        """What the device plugin would give a tenant."""
        page = str(self._directory / "tenant-0.page")
        return self.online_environment() | {TENANT_PAGE_ENV: page, "LD_PRELOAD": str(library_path())}

    def renew(self) -> None:
        """Renews the lease, unless the gate is held."""
        if not self._held:
            self.device.renew(time.monotonic() + _LEASE)

    def hold(self, closed: bool) -> None:
        """Keeps the gate closed, or leaves it to the engines; returns when the tenant has stopped."""
        changed, self._held = closed != self._held, closed
        if changed and closed:
            self.device.renew(time.monotonic())
            self._wait_stopped()
        self.renew()

    def _wait_stopped(self) -> None:
        deadline = time.monotonic() + _STOP_LIMIT
        while not self._stopped():
            if time.monotonic() > deadline:
                raise RuntimeError(f"the tenant has not stopped within {_STOP_LIMIT:.0f} s")
            time.sleep(0.01)

    def _stopped(self) -> bool:
        last = self.device.closings(0)[-1:]
        return all(closing.acknowledged is not None and closing.opened is None for closing in last)

    def tokens(self) -> int:
        """Tokens that the tenant has processed."""
        return self.device.counts().tenants[0].tokens

    def close(self) -> None:
        """Stops serving."""
        self._engine.kill()
        self._engine.wait()
        self.device.close()

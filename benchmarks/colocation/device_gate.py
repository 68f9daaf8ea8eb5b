"""A gate before a core that can be held closed; shared by benchmarks."""

import os
import subprocess
import time
from pathlib import Path

from rig.child import BENCHMARKS, command
from rig.served_device import ServedDevice

from rowen.node_agent.devices.device import Device

_LEASE = 2.0
_STOP_LIMIT = 5.0
_BACKSTOP = 0.05


class Gate:
    """A device of the core, for one tenant.

    Held closed by a request of its own engine, so that what rides in another one goes on; where its engine follows
    another one's requests, by letting the lease run out.
    """

    def __init__(self, directory: Path, core: int, flags: Path | None = None) -> None:
        """Keeps its state in `directory` and starts to serve the gate before `core`.

        `flags`: of a gate that may follow another engine's requests (`gap_engine.py`).
        """
        self._held, self._follows = False, flags is not None
        self._served = ServedDevice(directory, slots=1, cpu=core, backstop=_BACKSTOP)
        # The arms say how the core is shared.
        self._served.make_pods(with_share=False)
        self.renew()
        # A gate opens only for an engine; this one has no requests.
        self._engine = subprocess.Popen(
            command("colocation.gap_engine", *filter(None, [flags])),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=BENCHMARKS,
            env=os.environ | self.online_environment(),
        )
        assert self._engine.stdout is not None
        if self._engine.stdout.readline() != "0\n":
            raise RuntimeError("the idle engine could not attach to the gate")

    @property
    def device(self) -> Device:
        """The device behind it."""
        return self._served.device

    @property
    def without_backstop(self) -> str | None:
        """Why the kernel cannot stop a tenant that does not stop by itself."""
        return self._served.without_backstop

    def online_environment(self) -> dict[str, str]:
        """What the device plugin would give an engine."""
        return self._served.engine_environment()

    def tenant_environment(self) -> dict[str, str]:
        """What the device plugin would give a tenant."""
        return self._served.tenant_environment(0)

    def adopt(self, process: int) -> None:
        """Makes a process the gate's tenant, for the kernel."""
        self._served.adopt(0, process)

    def renew(self) -> None:
        """Renews the lease, unless the gate is held by it."""
        if not (self._held and self._follows):
            self.device.renew(time.monotonic() + _LEASE)

    def hold(self, closed: bool) -> None:
        """Keeps the gate closed, or leaves it to the engines; returns when the tenant has stopped."""
        changed, self._held = closed != self._held, closed
        if changed and not self._follows:
            assert self._engine.stdin is not None
            self._engine.stdin.write("busy\n" if closed else "idle\n")
            self._engine.stdin.flush()
        elif changed and closed:
            self.device.renew(time.monotonic())
        if changed and closed:
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
        self._served.close()

"""A device that a benchmark serves as a node's agent does."""

from pathlib import Path

from rig.pod import Pod

from rowen.crds.names import ENGINE_SOCKET_ENV, LIBRARY_ENV, PRELOAD_ENV, TENANT_SOCKETS_ENV
from rowen.node_agent.attach.door import Door
from rowen.node_agent.attach.entrance import Doorway
from rowen.node_agent.devices.allocation import SOCKET
from rowen.node_agent.devices.device import Device
from rowen.node_agent.memory.pool import Pool
from rowen.node_agent.native import library_path


class ServedDevice:
    """A device with a door for engines and one for each slot's tenant, served until `close`."""

    def __init__(self, folder: Path, *, slots: int, cpu: int, backstop: float, pool: Pool | None = None) -> None:
        """`folder`: of shared memory. `backstop` in seconds. `pool`: memory that changes its owner."""
        self._folder = folder
        self.device = Device(folder, slots=slots, cpus=[cpu], backstop=backstop, pool=pool)
        self._door = Door()
        self._door.open(self.device, [Doorway(self.socket(slot), slot) for slot in (None, *range(slots))])
        self._pods: dict[int, Pod] = {}
        self.without_backstop: str | None = "tenants have no cgroups"
        """Why the kernel cannot stop what does not stop by itself."""
        self.device.start()
        self._door.start()

    def make_pods(self, *, with_share: bool, limited: bool = False) -> None:
        """Gives each slot's tenant a cgroup; with or without a share of the CPU of its own, if that is how they are.

        `limited`: it may run beside requests on a share of the device.
        """
        try:
            for slot in range(len(self.device.counts().tenants)):
                self._pods[slot] = pod = Pod(limited=limited)
                if pod.has_share and not with_share:
                    raise OSError("a cgroup would change how the CPU is shared")
                self.device.set_pod(slot, pod.number, pod.freezer, pod.cpuacct, pod.cpu)
        except OSError as error:
            self.without_backstop = f"tenants have no cgroups: {error}"
        else:
            self.without_backstop = None

    def let_share(self, slot: int, shares: bool) -> None:
        """Whether a slot's tenant may run beside requests. Raises `RuntimeError` where it cannot be limited for it."""
        if self.without_backstop is not None:
            raise RuntimeError(self.without_backstop)
        pod = self._pods[slot]
        if shares and not pod.has_limit:
            raise RuntimeError("the kernel cannot limit a cgroup's CPU time here: there is no share beside requests")
        self.device.set_pod(slot, pod.number, pod.freezer, pod.cpuacct, pod.cpu if shares else None)

    def socket(self, slot: int | None) -> Path:
        """Of a slot's tenant, or the engines'."""
        return self._folder / ("engine" if slot is None else f"tenant-{slot}") / SOCKET

    def engine_environment(self) -> dict[str, str]:
        """What the device plugin would give an engine."""
        return {LIBRARY_ENV: str(library_path()), ENGINE_SOCKET_ENV: str(self.socket(None))}

    def tenant_environment(self, slot: int) -> dict[str, str]:
        """What the device plugin would give a slot's tenant."""
        library = str(library_path())
        return {LIBRARY_ENV: library, TENANT_SOCKETS_ENV: str(self.socket(slot)), PRELOAD_ENV: library}

    def entering(self, slot: int, command: list[str]) -> tuple[list[str], dict[str, str]]:
        """A command of a slot's tenant, in its cgroup from the beginning if there is one, and more variables for it."""
        environment = self.tenant_environment(slot)
        if self.without_backstop is not None:
            return command, environment
        return self._pods[slot].entering(command, environment), {}

    def adopt(self, slot: int, process: int) -> None:
        """Puts a slot's tenant into its cgroup, if there is one."""
        if self.without_backstop is None:
            self._pods[slot].join(process)

    def close(self) -> None:
        """Stops serving, once the tenants have ended."""
        self._door.close()
        self.device.close()
        for pod in self._pods.values():
            pod.remove()
